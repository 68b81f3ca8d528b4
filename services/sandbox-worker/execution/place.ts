import type { ExecutionCgroup } from '../cgroup/execution-cgroup.ts';
import type { ExecutionHost } from './execution-spec.ts';
import type { Nest } from './nests.ts';
import { type KillsAround, killsAround, type Usage } from './result.ts';

/** Where the processes of a direct execution are: a cgroup of their own, or a nest that others had before. */
export class Place {
  /** undefined: none is known, or they cannot be used here. */
  cgroup: ExecutionCgroup | undefined;
  /** Without a cgroup: how many processes of the container had been killed for memory when it began. */
  private killsBefore: number | undefined;
  private nest: Nest | undefined;
  private readonly host: ExecutionHost;

  constructor(host: ExecutionHost) {
    this.host = host;
  }

  /** Takes one for a start under this number. */
  take(number: bigint, nest: Nest | undefined): void {
    this.nest ??= nest;
    this.cgroup ??= nest?.cgroup ?? this.host.cgroups()?.execution(number);
    if (this.cgroup === undefined) this.killsBefore = this.host.memoryKills();
  }

  /** What its processes used, and without a cgroup how many of the container were killed for memory meanwhile. */
  usage(): Usage | KillsAround | undefined {
    if (this.cgroup !== undefined) return this.cgroup.usage();
    return killsAround(this.killsBefore, this.host.memoryKills());
  }

  /** Finds the one that an earlier process of this worker took. */
  adopt(number: bigint, nest: number): void {
    this.cgroup ??= this.host.cgroups()?.existing(number, nest);
  }

  /** Leaves the nest to the next execution, unless a process is left in it. */
  leave(): void {
    if (this.nest === undefined) return;
    const outcome = this.host.giveBack(this.nest);
    if (outcome === 'held') return;
    this.nest = undefined;
    // It is another's from now on.
    if (outcome === 'kept') this.cgroup = undefined;
  }

  /** Tries to free it; false while a process is left in it. */
  async remove(): Promise<boolean> {
    this.leave();
    return this.nest === undefined && (this.cgroup === undefined || this.cgroup.remove());
  }
}
