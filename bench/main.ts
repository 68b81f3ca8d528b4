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
    /** So many sessions that do nothing stand beside the one that is measured. */
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
const results: Record<string, Measured> = {};
try {
  const idle: Session[] = [];
  for (let made = 0; made < Number(values.idle); made++) idle.push(await client.sessions.create({}));
  const session = await client.sessions.create({ limits: { cpus: 2 } });
  const engine = createEngineApi(found.dockerSocket);
  const around: Surroundings = { client, session, engine, container: `assay-${session.id}`, setup: found, dataDir };
  for (const [name, bench] of Object.entries(benches)) {
    if (positionals.length > 0 && !positionals.includes(name)) continue;
    if (process.stderr.isTTY) process.stderr.write(`${name} …\n`);
    results[name] = await bench(around);
    if (!values.json) print(name, results[name]);
  }
  for (const each of [session, ...idle]) await each.close();
} finally {
  await cleanUp();
}
if (values.json) process.stdout.write(`${JSON.stringify(results)}\n`);

async function cleanUp(): Promise<void> {
  client.close();
  await stack.stop();
  rmSync(dataDir, { recursive: true, force: true });
}

function print(name: string, { ours, reference, unit, ratio, samples }: Measured): void {
  const figures = `${ours.toFixed(2)} ${unit}, reference ${reference.toFixed(2)} ${unit}`;
  process.stdout.write(`${name.padEnd(40)} ${`${ratio.toFixed(2)}×`.padStart(8)}   ${figures}, ${samples} samples\n`);
}
