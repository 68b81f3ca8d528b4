/** The processes of one execution, held by a cgroup below their container's. */
export interface ExecutionCgroup {
  /** Makes the cgroup and moves the waiting child in, by its pid in the container's pid namespace; false if it is gone. */
  place(namespacePid: number): Promise<boolean>;
  /** Signals every process while all are frozen, so that no fork escapes; returns how many were signalled. */
  kill(signal: number): number;
  /** undefined: no process was ever placed in it. */
  usage(): ExecutionUsage | undefined;
  populated(): boolean;
  /** false while processes remain. */
  remove(): Promise<boolean>;
}

export interface ExecutionUsage {
  readonly cpuMicros: number;
  readonly peakMemoryBytes: number;
  readonly oomKills: number;
}

/** The execution cgroups of one container. */
export interface ContainerCgroups {
  /** The execution's cgroup, which exists once a process was placed in it. */
  execution(number: bigint): ExecutionCgroup;
  /** The execution's cgroup if it was made before, by this worker or by the one before it. */
  existing(number: bigint): ExecutionCgroup | undefined;
}

/** createExecutionCgroups (execution-cgroups.ts) makes it. */
export interface ExecutionCgroups {
  /** none: cgroups cannot be written here. */
  readonly kind: 'v1' | 'v2' | 'none';
  /** undefined: the container is gone, or kind is none. */
  container(initPid: number): ContainerCgroups | undefined;
}
