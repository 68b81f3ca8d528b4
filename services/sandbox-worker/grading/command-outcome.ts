import { abortable } from '../../shared/abortable.ts';
import type { RunEnd } from '../../shared/verdict/outcome.ts';
import { refusalOf } from '../execution/refusal.ts';
import { endOf } from '../execution/result.ts';
import type { CommandOutcome } from './grader.ts';
import type { GradingContainer } from './grading-container.ts';
import type { GuestCommand, GuestEnd } from './guest-commands.ts';

/** What a shell says of a program that is not there. */
const notFound = 127;

/** So long an end that came in time may take to be heard. */
const hearingMs = 250;

export interface Finished extends CommandOutcome {
  /** Why nothing ran, where nothing did. */
  readonly refusal: string | undefined;
}

/** Runs a command to its end or its deadline. What it started may still run afterwards. */
export async function runToEnd(
  container: GradingContainer,
  command: GuestCommand,
  timeoutSeconds: number,
  signal: AbortSignal,
): Promise<Finished> {
  signal.throwIfAborted();
  const killsBefore = container.usage()?.oomKills ?? 0;
  const began = performance.now();
  const running = container.run(command);
  const end = await abortable(signal, inTime(running.ended, timeoutSeconds * 1_000));
  const kills = (container.usage()?.oomKills ?? 0) - killsBefore;
  return {
    end: end === undefined ? { kind: 'timed_out' } : endAs(end, kills),
    durationMs: end?.kind === 'ended' ? end.exit.durationMicros / 1_000 : performance.now() - began,
    stdout: running.stdout.kept(),
    stderr: running.stderr.kept(),
    refusal: end?.kind === 'refused' ? refusalOf(end.step, end.errno).message : undefined,
  };
}

function endAs(end: GuestEnd, oomKills: number): RunEnd {
  if (end.kind === 'refused') return { kind: 'exited', code: notFound };
  const said = endOf(end.exit.status);
  if ('exitCode' in said && said.exitCode === 0) return { kind: 'exited', code: 0 };
  // Whichever of its processes the kernel took, what came after says little about the submission.
  if (oomKills > 0) return { kind: 'out_of_memory' };
  return 'exitCode' in said ? { kind: 'exited', code: said.exitCode } : { kind: 'signaled', signal: said.signal };
}

/**
 * undefined where it took longer. By the guest's clock, not by when it is heard here: this process may have been held up
 * just then, and that is not the submission's doing.
 */
async function inTime(ended: Promise<GuestEnd>, ms: number): Promise<GuestEnd | undefined> {
  const end = (await within(ended, ms)) ?? (await within(ended, hearingMs));
  return end?.kind === 'ended' && end.exit.durationMicros > ms * 1_000 ? undefined : end;
}

/** undefined where the time is up first. */
async function within<T>(promise: Promise<T>, ms: number): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
