import type { ContainerProcessors } from './container-processors.ts';

/** The processes of one execution, or of one shell, held by a cgroup below their container's. */
export interface ExecutionCgroup {
  /** Makes the cgroup and moves the waiting child in, by its pid in the container's pid namespace; false if it is gone. */
  place(namespacePid: number): Promise<boolean>;
  /** Signals every process, and with SIGKILL whatever they fork meanwhile; returns how many were signalled. */
  kill(signal: number): number;
  /** undefined: no process was ever placed in it. */
  usage(): ExecutionUsage | undefined;
  /** Counts the peak of memory from now on, where the kernel allows it. Keeps the counters at hand until `release`. */
  resetPeak(): void;
  /** Lets go of what is kept open of it here. */
  release(): void;
  /** Every process in it, as this process sees them. */
  pids(): number[];
  populated(): boolean;
  /** false while processes remain. */
  remove(): Promise<boolean>;
}

/**
 * A cgroup that holds one execution after another, with a process of the guest that stays in it and forks each of them
 * there. That process is in nobody's way: it is neither counted as populating it nor killed.
 */
export interface NestCgroup extends ExecutionCgroup {
  /** Makes it fit for the next execution; false where the last one left processes, memory or kills behind. */
  renew(): boolean;
  /** Gives up the process that stays: whatever is in it from now on is the execution's. */
  abandon(): void;
}

export interface ExecutionUsage {
  readonly cpuMicros: number;
  readonly peakMemoryBytes: number;
  readonly oomKills: number;
}

/** The cgroup of one container, and those of its executions. */
export interface ContainerCgroups {
  /** The execution's cgroup, which exists once a process was placed in it. */
  execution(number: bigint): ExecutionCgroup;
  /** A cgroup for a nest that was never used, or undefined where they cannot be used again. */
  nest(number: number): NestCgroup | undefined;
  /** The highest number that a nest was given so far. */
  readonly lastNest: number;
  /** The execution's cgroup if it was made before, by this worker or by the one before it; `nest` unless 0. */
  existing(number: bigint, nest: number): ExecutionCgroup | undefined;
  /** undefined: the host does not share processors by cgroup. */
  readonly processors: ContainerProcessors | undefined;
}

/** createExecutionCgroups (execution-cgroups.ts) makes it. */
export interface ExecutionCgroups {
  /** none: cgroups cannot be written here. */
  readonly kind: 'v1' | 'v2' | 'none';
  /** undefined: the container is gone, or kind is none. */
  container(initPid: number): ContainerCgroups | undefined;
}
