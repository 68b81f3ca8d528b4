import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { EndReason, type ExecutionResult, ExecutionResultSchema } from '../../../gen/assay/v1/execution_pb.js';
import { durationFromMicros } from '../../shared/duration.ts';
import { type GuestExit, GuestViolation } from '../guest/frame.ts';

/** What the execution's cgroup says, where there is one. */
export interface Usage {
  readonly cpuMicros: number;
  readonly peakMemoryBytes: number;
  readonly oomKills: number;
}

/** Where there is no such cgroup: the kills for memory in the whole container while the execution ran. */
export interface KillsAround {
  readonly killsAround: number;
}

export function killsAround(before: number | undefined, now: number | undefined): KillsAround | undefined {
  if (before === undefined || now === undefined) return undefined;
  return { killsAround: Math.max(0, now - before) };
}

/** How a program ended, from its wait status. */
export function endOf(status: number): { exitCode: number } | { signal: number } {
  if ((status & 0x7f) === 0) return { exitCode: (status >> 8) & 0xff };
  const signal = status & 0x7f;
  if (signal === 0x7f || signal > 64) throw new GuestViolation(`a wait status of ${status}`);
  return { signal };
}

/** The result of a program that ended. `doom` is why it was being ended, and wins over how. */
export function resultOf(
  exit: GuestExit,
  doom: EndReason | undefined,
  counted: Usage | KillsAround | undefined,
): ExecutionResult {
  const end = endOf(exit.status);
  const usage = counted !== undefined && 'killsAround' in counted ? undefined : counted;
  const oomKills = usage?.oomKills ?? killsOf(end, counted as KillsAround | undefined);
  const exited = 'exitCode' in end;
  const endedWell = exited && end.exitCode === 0;
  const ended = exit.shellEnded ? EndReason.SHELL_EXITED : exited ? EndReason.EXITED : EndReason.SIGNALED;
  const reason = doom ?? (oomKills > 0 && !endedWell ? EndReason.OUT_OF_MEMORY : ended);
  return create(ExecutionResultSchema, {
    reason,
    ...end,
    duration: durationFromMicros(exit.durationMicros),
    cpuTime: durationFromMicros(usage?.cpuMicros ?? exit.userMicros + exit.systemMicros),
    peakMemoryBytes: BigInt(usage?.peakMemoryBytes ?? exit.peakKib * 1024),
    stdoutBytes: BigInt(exit.stdoutBytes),
    stderrBytes: BigInt(exit.stderrBytes),
    oomKillCount: oomKills,
    message: sentence(reason, oomKills),
    endTime: timestampFromMs(Date.now()),
  });
}

/** Kills in the container may be a neighbour's: only one whose end looks like it had a part in them. */
function killsOf(end: ReturnType<typeof endOf>, counted: KillsAround | undefined): number {
  const killed = 'signal' in end ? end.signal === 9 : end.exitCode === 128 + 9;
  return killed ? (counted?.killsAround ?? 0) : 0;
}

/** The result of a command in a shell, with what it did to the shell. */
export function inShell(
  result: ExecutionResult,
  exit: GuestExit,
  shellReopened: boolean,
  shellClosing: boolean,
): ExecutionResult {
  const about = shellClosing ? 'its shell was closed' : shellSentence(result.reason, exit);
  const message = [result.message, about].filter((text) => text !== '').join('; ');
  return { ...result, message, shellReopened, shellEnded: exit.shellEnded };
}

/** The result of a command that waited for its shell and was ended before it ran. */
export function notRunResult(message: string): ExecutionResult {
  return create(ExecutionResultSchema, {
    reason: EndReason.CANCELLED,
    duration: durationFromMicros(0),
    cpuTime: durationFromMicros(0),
    message,
    endTime: timestampFromMs(Date.now()),
  });
}

/** The result of a program whose sandbox ended first. */
export function lostResult(message: string, stdoutBytes: number, stderrBytes: number): ExecutionResult {
  return create(ExecutionResultSchema, {
    reason: EndReason.SANDBOX_LOST,
    message,
    stdoutBytes: BigInt(stdoutBytes),
    stderrBytes: BigInt(stderrBytes),
    endTime: timestampFromMs(Date.now()),
  });
}

function sentence(reason: EndReason, oomKills: number): string {
  if (reason === EndReason.OUT_OF_MEMORY) return `the kernel killed ${oomKills} of its processes for memory`;
  if (reason === EndReason.TIMED_OUT) return 'its timeout passed and every process was ended';
  if (reason === EndReason.CANCELLED) return 'it was cancelled and every process was ended';
  return '';
}

function shellSentence(reason: EndReason, { shellEnded, shellSilent }: GuestExit): string {
  const again = 'it is opened again with its initial state';
  if (shellSilent) return `the shell stopped telling how its commands end, so it was ended; ${again}`;
  if (!shellEnded) return '';
  return reason === EndReason.SHELL_EXITED
    ? `the command ended its shell; ${again}`
    : `its shell ended with it; ${again}`;
}
