import type { ExecutionCgroup } from '../cgroup/execution-cgroup.ts';
import { createDeadline, type Deadline } from '../execution/deadline.ts';
import type { Doom, DoomReason } from '../execution/doom.ts';
import { interrupt, signal, signalScope } from '../guest/frame.ts';
import { startedSince } from './process-age.ts';

const sigterm = 15;
const sigkill = 9;
const graceMs = 2_000;
const lookMs = 50;

export interface ShellDoomDeps {
  readonly number: bigint;
  readonly startedMs: number;
  readonly cgroup: ExecutionCgroup | undefined;
  send(frame: Buffer): void;
}

/**
 * The ending of a command in a shell from outside, in such a way that the shell lives: TERM to what the command started
 * while the shell gives up its text, two seconds, KILL, two seconds. If the command has not ended by then, the shell
 * itself is in its way: everything in it is killed, and the guest opens it again.
 */
export function beginShellDoom(reason: DoomReason, { number, startedMs, cgroup, send }: ShellDoomDeps): Doom {
  let killed = false;
  let ended = false;
  let listener: (() => void) | undefined;
  let looking: NodeJS.Timeout | undefined;
  let step: Deadline;

  function blow(signo: number): void {
    // The shell first: it must know before the end of its program lets it go on.
    if (!ended) send(interrupt(number));
    send(signal(number, signo, signalScope.execution));
  }

  /** Whether a process that is younger than the command is left in the shell. */
  function left(): boolean {
    return cgroup === undefined ? !killed : cgroup.pids().some((pid) => startedSince(pid, startedMs));
  }

  function look(): void {
    looking = undefined;
    if (!ended || listener === undefined) return;
    if (!killed && left()) {
      looking = setTimeout(look, lookMs).unref();
      return;
    }
    step.cancel();
    const gone = listener;
    listener = undefined;
    gone();
  }

  function killCommand(): void {
    killed = true;
    blow(sigkill);
    step = createDeadline(graceMs, killShell);
    if (looking === undefined) look();
  }

  function killShell(): void {
    if (ended) return;
    if (cgroup === undefined || cgroup.kill(sigkill) === 0) send(signal(number, sigkill, signalScope.program));
    // A process that could not be moved into the cgroup, or a shell that was just being opened: once more.
    step = createDeadline(graceMs, killShell);
  }

  blow(sigterm);
  step = createDeadline(graceMs, killCommand);

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
      step.cancel();
      clearTimeout(looking);
    },
    freeze: () => step.pause(),
    thaw: () => step.resume(),
  };
}
