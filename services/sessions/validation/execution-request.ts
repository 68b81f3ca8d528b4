import type {
  AttachRequest,
  ExecuteRequest,
  TerminalSize,
  WriteInputRequest,
} from '../../../gen/assay/v1/execution_pb.js';
import type { Limits } from '../config.ts';
import { checkEnv } from './environment.ts';
import { checkBytes, checkCount, checkDuration, checkNoNul, checkRange, invalid } from './field.ts';
import { checkExecutionId, checkSessionId, checkShellId } from './identifier.ts';
import { checkTerminalSize } from './terminal-size.ts';
import { checkWorkingDirectory } from './working-directory.ts';

const dayMs = 86_400_000;
const argumentCount = 4_096;

/** Throws for the first field that is wrong. An empty execution id is right: the server makes one. */
export function checkExecuteRequest(request: ExecuteRequest, limits: Limits): void {
  checkSessionId(request.sessionId);
  if (request.executionId !== '') checkExecutionId(request.executionId);
  if (request.shellId !== '') checkForShell(request);
  checkProgram(request.program, limits);
  checkEnv('env', request.env);
  checkWorkingDirectory(request.workingDirectory);
  if (request.terminal !== undefined) checkTerminal(request, request.terminal);
  if (request.timeout !== undefined) checkDuration('timeout', request.timeout, 1, dayMs);
  checkRange('output_kept_bytes', request.outputKeptBytes, 0, limits.outputKeptBytes, 'bytes');
}

/** A shell has its own environment and directory, which a command changes by its text. */
function checkForShell({ shellId, program, env, workingDirectory }: ExecuteRequest): void {
  checkShellId(shellId);
  if (program.case === 'argv')
    throw invalid('argv', 'found it with a shell_id', 'command or script: a shell runs text');
  if (Object.keys(env).length > 0) {
    throw invalid(
      'env',
      'found variables with a shell_id',
      'none: export them in the command, or give them to OpenShell',
    );
  }
  if (workingDirectory !== '') {
    throw invalid('working_directory', 'found one with a shell_id', 'none: cd in the command, or give it to OpenShell');
  }
}

export function checkAttachRequest(request: AttachRequest): void {
  checkExecutionName(request);
  checkOffset('stdout_offset', request.stdoutOffset);
  checkOffset('stderr_offset', request.stderrOffset);
}

export function checkWriteInputRequest(request: WriteInputRequest, limits: Limits): void {
  checkExecutionName(request);
  checkOffset('offset', request.offset);
  checkBytes('data', request.data, limits.inputBytes);
}

export function checkSignal(signal: number): void {
  if (signal < 1 || signal > 64) throw invalid('signal', `found ${signal}`, 'a signal of Linux, 1 to 64');
}

export function checkExecutionName(request: { sessionId: string; executionId: string }): void {
  checkSessionId(request.sessionId);
  checkExecutionId(request.executionId);
}

function checkTerminal({ shellId }: ExecuteRequest, size: TerminalSize): void {
  if (shellId !== '') throw invalid('terminal', 'found one beside shell_id', 'a terminal for a direct execution only');
  checkTerminalSize('terminal', size);
}

function checkOffset(field: string, offset: bigint): void {
  checkRange(field, offset, 0, Number.MAX_SAFE_INTEGER, 'as an offset');
}

function checkProgram(program: ExecuteRequest['program'], limits: Limits): void {
  switch (program.case) {
    case undefined:
      throw invalid('program', 'found none', 'one of command, script and argv');
    case 'command':
      if (program.value.trim() === '') throw invalid('command', 'found no text', 'shell text, such as ls -l');
      checkBytes('command', program.value, limits.commandBytes);
      checkNoNul('command', program.value);
      return;
    case 'script':
      if (program.value.length === 0) throw invalid('script', 'found no bytes', 'shell text');
      checkBytes('script', program.value, limits.commandBytes);
      if (program.value.includes(0)) throw invalid('script', 'found a NUL byte', 'shell text without one');
      return;
    case 'argv':
      checkArgv(program.value.args, limits);
  }
}

function checkArgv(args: readonly string[], limits: Limits): void {
  if (args.length === 0 || args[0] === '') throw invalid('argv', 'found no program', 'at least the name of a program');
  checkCount('argv', args.length, argumentCount);
  const bytes = args.reduce((sum, argument) => sum + Buffer.byteLength(argument) + 1, 0);
  checkRange('argv', bytes, 1, limits.commandBytes, 'bytes together');
  for (const argument of args) checkNoNul('argv', argument);
}
