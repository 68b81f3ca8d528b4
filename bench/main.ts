import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { createClient, type Session } from '../clients/typescript/index.ts';
import { setup } from '../scripts/setup/index.mjs';
import { startStack } from '../scripts/stack.mjs';
import { commandsInFlight, directCommand, shellCommand, shellCommandsInFlight } from './commands.ts';
import { coldCreate, warmCreate } from './create.ts';
import { createEngineApi } from './engine-api.ts';
import type { Bench, Measured, Surroundings } from './measured.ts';
import { output } from './output.ts';
import { verificationOverhead } from './verification.ts';

const benches: Readonly<Record<string, Bench>> = {
  direct_command_vs_docker_exec: directCommand,
  sh_command_vs_docker_exec: shellCommand('sh'),
  bash_command_vs_docker_exec: shellCommand('bash'),
  commands_in_flight_32_vs_docker_exec: commandsInFlight,
  shell_commands_in_flight_32_vs_docker_exec: shellCommandsInFlight,
  cold_create_vs_engine: coldCreate,
  warm_create_vs_docker_run: warmCreate,
  output_vs_docker_cli: output,
  verification_overhead: verificationOverhead,
};

const { values, positionals } = parseArgs({
  options: {
    json: { type: 'boolean' },
    /** All is measured twice: by itself, then with so many sessions beside that do nothing. */
    idle: { type: 'string', default: '0' },
    /** No container is started ahead of its grading. */
    'no-pool': { type: 'boolean', default: false },
  },
  allowPositionals: true,
});
const unknown = positionals.filter((name) => benches[name] === undefined);
if (unknown.length > 0) {
  process.stderr.write(`no bench ${unknown.join(', ')}; there are ${Object.keys(benches).join(', ')}\n`);
  process.exit(2);
}
const found = await setup();
const dataDir = mkdtempSync(join(tmpdir(), 'assay-bench-'));
const env = values['no-pool'] ? { worker: { ASSAY_GRADING_POOL: '0' } } : {};
const stack = await startStack({ setup: found, dataDir, env });
const client = createClient({ endpoint: stack.endpoint, apiKey: stack.key });
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => void cleanUp().then(() => process.exit(1)));
const engine = createEngineApi(found.dockerSocket);
let results: Record<string, Measured> = {};
try {
  results = await measureAll();
  if (Number(values.idle) > 0) results = await measureBesideIdle(results);
} finally {
  await cleanUp();
}
if (values.json) process.stdout.write(`${JSON.stringify(results)}\n`);

/** Every bench that was asked for, in a session of their own: a worker remembers what ran in one. */
async function measureAll(alone: Record<string, Measured> = {}): Promise<Record<string, Measured>> {
  const measured: Record<string, Measured> = {};
  await using session = await client.sessions.create({ limits: { cpus: 2 } });
  const around: Surroundings = { client, session, engine, container: `assay-${session.id}`, setup: found, dataDir };
  for (const [name, bench] of Object.entries(benches)) {
    if (positionals.length > 0 && !positionals.includes(name)) continue;
    if (process.stderr.isTTY) process.stderr.write(`${name} …\n`);
    const figure = await bench(around);
    measured[name] = alone[name] === undefined ? figure : { ...figure, slowdown: slowdown(figure, alone[name]) };
    if (!values.json) print(name, measured[name]);
  }
  return measured;
}

async function measureBesideIdle(alone: Record<string, Measured>): Promise<Record<string, Measured>> {
  const idle: Session[] = [];
  try {
    while (idle.length < Number(values.idle)) idle.push(await client.sessions.create({}));
    if (!values.json) process.stdout.write(`with ${idle.length} idle sessions beside:\n`);
    return await measureAll(alone);
  } finally {
    for (const session of idle) await session.close();
  }
}

/** How many times worse: ours now against ours before. */
function slowdown(now: Measured, before: Measured): number {
  return now.unit === 'ms' ? now.ours / before.ours : before.ours / now.ours;
}

async function cleanUp(): Promise<void> {
  client.close();
  await stack.stop();
  rmSync(dataDir, { recursive: true, force: true });
}

function print(name: string, { ours, reference, unit, ratio, samples, slowdown }: Measured): void {
  const figures = `${ours.toFixed(2)} ${unit}, reference ${reference.toFixed(2)} ${unit}, ${samples} samples`;
  const told = slowdown === undefined ? '' : `, ${slowdown.toFixed(2)} times as slow as by itself`;
  process.stdout.write(`${name.padEnd(40)} ${`${ratio.toFixed(2)}×`.padStart(8)}   ${figures}${told}\n`);
}
