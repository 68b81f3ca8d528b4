const sigkill = 9;
/** Without a freeze. Only what forks faster than a list is read and signalled is left after that. */
const swiftRounds = 4;
const killRounds = 16;
/** A pid is free for another process once all others were used: longer than this takes, on any machine. */
const freshMs = 2;

/** A cgroup whose processes can be held still. */
export interface Freezable {
  /** true once every process stands still; false if some did not within a bounded time. Costs some milliseconds for each process. */
  freeze(): boolean;
  thaw(): void;
  pids(): number[];
}

type Kill = (pid: number, signal: number) => void;

/**
 * Signals every process of a cgroup; returns how many. A process that has SIGKILL forks no more, so going round until nobody new is
 * found reaches all; only where something forks faster than that everything is frozen. What is forked while another signal is sent may
 * miss it: a KILL follows for what does not end.
 */
export function signalCgroup(cgroup: Freezable, signal: number, kill: Kill = process.kill): number {
  const signalled = new Set<number>();
  if (signal !== sigkill) {
    signalFresh(cgroup, signal, kill, signalled);
    return signalled.size;
  }
  for (let round = 0; round < swiftRounds; round += 1) {
    if (signalFresh(cgroup, signal, kill, signalled) === 0) return signalled.size;
  }
  for (let round = 0; round < killRounds; round += 1) {
    const frozen = cgroup.freeze();
    let fresh = 0;
    try {
      fresh = signalFresh(cgroup, signal, kill, signalled);
    } finally {
      cgroup.thaw();
    }
    if (frozen || fresh === 0) break;
  }
  return signalled.size;
}

/** Signals those that were not yet; returns how many. A process that has ended may leave its pid to any process of this host, so lists are not used for long. */
function signalFresh(cgroup: Freezable, signal: number, kill: Kill, signalled: Set<number>): number {
  let fresh = 0;
  let readMs = performance.now();
  let listed = new Set(cgroup.pids());
  for (const pid of [...listed]) {
    if (signalled.has(pid)) continue;
    if (performance.now() - readMs > freshMs) {
      readMs = performance.now();
      listed = new Set(cgroup.pids());
    }
    if (!listed.has(pid) || !send(kill, pid, signal)) continue;
    signalled.add(pid);
    fresh += 1;
  }
  return fresh;
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
