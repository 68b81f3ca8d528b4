import type { EndReason } from '../../../gen/assay/v1/execution_pb.js';
import type { ExecutionCgroup } from '../cgroup/execution-cgroup.ts';
import { signal, signalScope } from '../guest/frame.ts';
import { createDeadline } from './deadline.ts';

const sigterm = 15;
const sigkill = 9;
const graceMs = 2_000;
const lookMs = 50;

export type DoomReason = EndReason.TIMED_OUT | EndReason.CANCELLED;

/** The ending of an execution from outside: TERM to every process, two seconds, KILL to those that are left. */
export interface Doom {
  readonly reason: DoomReason;
  /** Calls back once no process of the execution is left that could be found. */
  whenGone(gone: () => void): void;
  /** The program itself has ended; what is left are its children. */
  programEnded(): void;
  /** Leaves what is left to others: nobody is signalled or called back any more. */
  stop(): void;
  /** The sandbox stands still, or goes on: no time passes meanwhile. */
  freeze(): void;
  thaw(): void;
}

export function beginDoom(
  number: bigint,
  reason: DoomReason,
  cgroup: Pick<ExecutionCgroup, 'kill' | 'populated'> | undefined,
  send: (frame: Buffer) => void,
): Doom {
  let killed = false;
  let ended = false;
  let listener: (() => void) | undefined;
  let looking: NodeJS.Timeout | undefined;

  /** By the cgroup, which no process can leave; where nobody is in one, by what the guest can find. */
  function signalAll(signo: number): void {
    if (cgroup === undefined || cgroup.kill(signo) === 0) send(signal(number, signo, signalScope.execution));
  }

  function look(): void {
    looking = undefined;
    if (!ended || listener === undefined) return;
    // Without a cgroup nothing outside can see the children, so the second blow must have fallen.
    const left = cgroup === undefined ? !killed : cgroup.populated();
    if (left) {
      looking = setTimeout(look, lookMs);
      looking.unref();
      return;
    }
    second.cancel();
    const gone = listener;
    listener = undefined;
    gone();
  }

  signalAll(sigterm);
  const second = createDeadline(graceMs, () => {
    killed = true;
    signalAll(sigkill);
    if (looking === undefined) look();
  });

  return {
    reason,
    whenGone(gone) {
      listener = gone;
      look();
    },
    programEnded() {
      ended = true;
      look();
    },
    stop() {
      listener = undefined;
      second.cancel();
      clearTimeout(looking);
    },
    freeze: () => second.pause(),
    thaw: () => second.resume(),
  };
}
