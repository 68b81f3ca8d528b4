import { constants } from 'node:os';
import { getSystemErrorName } from 'node:util';
import { DomainError } from '../../shared/domain-error.ts';
import { failedStep } from '../guest/frame.ts';
import { endOf } from './result.ts';

const steps: Readonly<Record<number, string>> = {
  1: 'its pipes could not be made',
  2: 'no process could be made for it',
  3: 'its working directory could not be entered',
  4: 'its user could not be taken on',
  5: 'the program could not be executed',
  7: 'its shell was gone',
  8: 'its shell was busy',
  9: 'the process that was prepared for it had been killed',
  6: 'the sandbox follows as many executions as it can; end some that still run or hold their output open',
};

const advice: Readonly<Record<string, string>> = {
  ENOENT: 'no such file; check the path and PATH',
  EACCES: 'permission denied; is it executable?',
  ENOTDIR: 'a part of the path is not a directory',
  EAGAIN: "the session's limit of processes is reached; cancel what runs",
  ENOMEM: "the session's memory is used up; cancel what runs",
  ENOEXEC: 'not a program this machine can run',
  E2BIG: 'arguments and environment are too long together',
};

const namedExecutions = 5;

/** Why the guest ran nothing, from its FAILED frame. `leftBehind`: executions that have ended and left processes. */
export function refusalOf(step: number, errno: number, leftBehind: readonly string[] = []): DomainError {
  const name = errnoName(errno);
  const what = steps[step] ?? `step ${step} failed`;
  const why = step === 6 ? '' : `: ${name}${advice[name] === undefined ? '' : ` (${advice[name]})`}`;
  const reason = step === 6 || step === 2 ? 'EXECUTION_QUOTA' : 'PROGRAM_NOT_STARTED';
  const left = name === 'EAGAIN' || name === 'ENOMEM' ? hintAt(leftBehind) : '';
  return new DomainError(reason, `nothing was run: ${what}${why}${left}`, { step: String(step), errno: name });
}

/** Why a shell could not be opened, from the guest's FAILED frame: errno, or how its program ended. */
export function shellRefusalOf(step: number, errnoOrStatus: number): DomainError {
  if (step === failedStep.shellEnded || step === failedStep.shellSilent) return notAShell(step, errnoOrStatus);
  const { reason, message, metadata } = refusalOf(step, errnoOrStatus);
  return new DomainError(reason, `the shell could not be opened; ${message}`, metadata);
}

function notAShell(step: number, status: number): DomainError {
  const end = endOf(status);
  const [how, found] =
    'exitCode' in end
      ? [`ended with exit code ${end.exitCode}`, { exit_code: String(end.exitCode) }]
      : [`was ended by ${signalName(end.signal)}`, { signal: signalName(end.signal) }];
  const what = step === failedStep.shellSilent ? 'took no commands and was killed' : `${how} before it took commands`;
  const message = `the shell could not be opened; its program ${what}: expected a shell that reads commands from its standard input`;
  return new DomainError('PROGRAM_NOT_STARTED', `${message}; run the program by Execute to see what it prints`, {
    step: String(step),
    ...found,
  });
}

function signalName(signal: number): string {
  return Object.entries(constants.signals).find(([, number]) => number === signal)?.[0] ?? `signal ${signal}`;
}

function hintAt(leftBehind: readonly string[]): string {
  if (leftBehind.length === 0) return '';
  const more = leftBehind.length > namedExecutions ? ` and ${leftBehind.length - namedExecutions} more` : '';
  const names = leftBehind.slice(-namedExecutions).join(', ');
  return `; processes are left of executions that have ended: ${names}${more}; cancel these to end them`;
}

function errnoName(errno: number): string {
  try {
    return getSystemErrorName(-errno);
  } catch {
    return `errno ${errno}`;
  }
}
