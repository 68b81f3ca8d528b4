import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Command } from 'commander';
import { findAccess } from '../access.ts';
import { withCommonOptions } from '../common-options.ts';
import type { Context } from '../context.ts';
import { exitCodes } from '../exit-code.ts';
import { toFailure } from '../failure.ts';

export function addDoctorCommand(program: Command, context: Context): void {
  const command = program
    .command('doctor')
    .description('check this machine and the server, and say what to type')
    .action(() => examine(context));
  withCommonOptions(command, context);
}

interface EndpointFinding {
  name: 'endpoint';
  state: 'ok' | 'missing';
  found: string;
  type?: string;
}

async function examine(context: Context): Promise<void> {
  const machine = await examineMachine(context.env);
  const endpoint = await examineEndpoint(context);
  const ok = machine.ok && endpoint.state === 'ok';
  context.exitCode = ok ? 0 : exitCodes.failed;
  context.print({ ok, findings: [...machine.findings, endpoint] }, () =>
    [...machine.findings, endpoint].map(render).join('\n'),
  );
}

interface Finding {
  name: string;
  state: string;
  found: string;
  type?: string;
}

const marks: Readonly<Record<string, string>> = { ok: '✓', warning: '!', missing: '✗' };

function render({ name, state, found, type }: Finding): string {
  const advice = type === undefined ? '' : `\n${' '.repeat(19)}type: ${type}`;
  return `${marks[state] ?? '?'} ${name.padEnd(16)} ${found}${advice}`;
}

/** What the checkout's own doctor finds on this machine. */
async function examineMachine(env: Context['env']): Promise<{ ok: boolean; findings: Finding[] }> {
  const script = fileURLToPath(new URL('../../scripts/doctor.mjs', import.meta.url));
  const child = spawn(process.execPath, [script, '--json'], { env: { ...env }, stdio: ['ignore', 'pipe', 'inherit'] });
  const closed = once(child, 'close');
  const report = (await Array.fromAsync(child.stdout.setEncoding('utf8'))).join('');
  await closed;
  return JSON.parse(report) as { ok: boolean; findings: Finding[] };
}

async function examineEndpoint(context: Context): Promise<EndpointFinding> {
  const { endpoint } = findAccess(context.env, context.endpoint);
  try {
    const { version } = await context.client().server.info();
    const workers = await Array.fromAsync(context.client().workers.list());
    const reachable = workers.filter(({ state }) => state !== 'SILENT' && state !== 'UNREACHABLE').length;
    const found = `${endpoint} serves version ${version} with ${reachable} of ${workers.length} workers`;
    return { name: 'endpoint', state: 'ok', found };
  } catch (error) {
    const { found, type } = toFailure(error);
    return { name: 'endpoint', state: 'missing', found, ...(type === undefined ? {} : { type }) };
  }
}
