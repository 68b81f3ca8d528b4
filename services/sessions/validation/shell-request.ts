import type { OpenShellRequest } from '../../../gen/assay/v1/shell_pb.js';
import { checkEnv } from './environment.ts';
import { checkCount, checkNoNul, invalid, overLimit, show } from './field.ts';
import { checkSessionId, checkShellId } from './identifier.ts';
import { checkWorkingDirectory } from './working-directory.ts';

const argumentCount = 64;
const argumentBytes = 65_536;
const shells: ReadonlySet<string> = new Set(['bash', 'sh', 'dash', 'zsh', 'ash']);

/** Throws for the first field that is wrong. An empty shell id is right: the server makes one. */
export function checkOpenShellRequest(request: OpenShellRequest): void {
  checkSessionId(request.sessionId);
  if (request.shellId !== '') checkShellId(request.shellId);
  checkProgram(request.program);
  checkEnv('env', request.env);
  checkWorkingDirectory(request.workingDirectory);
}

export function checkShellName(request: { sessionId: string; shellId: string }): void {
  checkSessionId(request.sessionId);
  checkShellId(request.shellId);
}

function checkProgram(program: readonly string[]): void {
  if (program.length === 0) return;
  checkCount('program', program.length, argumentCount);
  const bytes = program.reduce((sum, argument) => sum + Buffer.byteLength(argument) + 1, 0);
  if (bytes > argumentBytes) throw overLimit('program', bytes, argumentBytes, 'bytes together');
  for (const argument of program) checkNoNul('program', argument);
  const [first = '', second = ''] = program;
  const name = baseName(first);
  const expected = 'bash, dash, zsh, ash or sh, or busybox followed by ash or sh';
  if (name === 'busybox' && (second === 'ash' || second === 'sh')) return;
  if (!shells.has(name)) throw invalid('program', `found ${show(program.slice(0, 2).join(' '))}`, expected);
}

function baseName(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}
