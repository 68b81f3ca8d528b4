import { type ChildProcess, spawn } from 'node:child_process';
import { constants } from 'node:os';
import { createLauncher } from './launcher.ts';
import {
  outputLimit,
  type ProgramEnd,
  type ProgramOptions,
  type RunningProgram,
  type StartProgram,
} from './running-program.ts';

const defaultTimeoutMs = 60_000;

let start: StartProgram = startHere;

/** From here on programs are started by a small process: a fork of this one would stop its event loop for milliseconds. */
export function launchThrough(launcherPath: string): void {
  start = createLauncher(launcherPath);
}

export function startProgram(file: string, args: readonly string[], options: ProgramOptions = {}): RunningProgram {
  return start(file, args, { env: systemEnvironment(), ...options });
}

interface EndOptions {
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/** Runs a system program to its end, or kills it after `timeoutMs` or at the signal. Resolves with its end, whatever that was. */
export async function endOfProgram(
  file: string,
  args: readonly string[],
  { timeoutMs = defaultTimeoutMs, signal, ...options }: ProgramOptions & EndOptions = {},
): Promise<ProgramEnd> {
  const program = startProgram(file, args, { input: '', ...options });
  const timer = setTimeout(program.kill, timeoutMs);
  signal?.addEventListener('abort', program.kill, { once: true });
  try {
    return await program.ended;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', program.kill);
  }
}

/** Runs a system program to its end. Resolves with its stdout; throws with what it said on stderr. */
export async function runProgram(file: string, args: readonly string[], input = ''): Promise<string> {
  const end = await endOfProgram(file, args, { input });
  if (end.code === 0) return end.stdout;
  throw new Error(`${file} failed: ${end.stderr.trim() || describeEnd(end)}`);
}

export function describeEnd({ code, signal }: ProgramEnd): string {
  return signal === undefined ? `ended with ${code}` : `ended by signal ${signal}`;
}

/** Daemons often start without the sbin directories, where mkfs, ip and iptables live. */
function systemEnvironment(): Record<string, string> {
  return { PATH: `${process.env.PATH ?? '/usr/bin:/bin'}:/usr/local/sbin:/usr/sbin:/sbin`, LC_ALL: 'C' };
}

function startHere(file: string, args: readonly string[], options: ProgramOptions): RunningProgram {
  // A process group of its own, as the launcher gives it: what a shell started ends with the shell.
  const child: ChildProcess = spawn(file, args, { env: options.env, stdio: 'pipe', detached: true });
  const said = { stdout: '', stderr: '' };
  for (const [name, listener] of [
    ['stdout', options.onStdout],
    ['stderr', options.onStderr],
  ] as const) {
    child[name]?.on('data', (chunk: Buffer) => {
      if (said[name].length < outputLimit) said[name] += chunk.toString();
      listener?.(chunk);
    });
  }
  child.stdin?.on('error', () => {});
  if (options.input !== undefined) child.stdin?.end(options.input);
  const ended = new Promise<ProgramEnd>((resolve) => {
    child.on('error', ({ message }) => resolve({ code: 127, signal: undefined, stdout: '', stderr: message }));
    child.on('close', (code, signal) =>
      resolve({
        ...said,
        code: code ?? undefined,
        signal: signal === null ? undefined : constants.signals[signal],
      }),
    );
  });
  return { endInput: () => void child.stdin?.end(), kill: () => killGroup(child), ended };
}

function killGroup({ pid, exitCode, signalCode }: ChildProcess): void {
  // The number of one that has ended may be another's by now.
  if (pid === undefined || exitCode !== null || signalCode !== null) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // Its group has ended by itself.
  }
}
