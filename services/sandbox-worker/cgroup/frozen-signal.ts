const sigkill = 9;
const killRounds = 16;

/** A cgroup whose processes can be held still. */
export interface Freezable {
  /** true once every process stands still; false if some did not within a bounded time. */
  freeze(): boolean;
  thaw(): void;
  pids(): number[];
}

type Kill = (pid: number, signal: number) => void;

/**
 * Signals every process of a cgroup while none can fork. A process that cannot be frozen (it waits in the kernel) may
 * still fork, so SIGKILL goes round until it finds nobody new. Returns how many processes were signalled.
 */
export function signalFrozen(cgroup: Freezable, signal: number, kill: Kill = process.kill): number {
  // Nobody is there to fork, so an empty one needs no freezing.
  if (cgroup.pids().length === 0) return 0;
  const signalled = new Set<number>();
  for (let round = 0; round < (signal === sigkill ? killRounds : 1); round += 1) {
    const frozen = cgroup.freeze();
    let fresh = 0;
    try {
      for (const pid of cgroup.pids()) {
        if (signalled.has(pid)) continue;
        // A process that is not frozen may end, and its pid become that of any process of this host.
        if (!frozen && !cgroup.pids().includes(pid)) continue;
        if (!send(kill, pid, signal)) continue;
        signalled.add(pid);
        fresh += 1;
      }
    } finally {
      cgroup.thaw();
    }
    if (frozen || fresh === 0) break;
  }
  return signalled.size;
}

function send(kill: Kill, pid: number, signal: number): boolean {
  try {
    kill(pid, signal);
    return true;
  } catch {
    // It ended in this moment.
    return false;
  }
}
