import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { createClient } from '../clients/typescript/index.ts';
import { setup } from '../scripts/setup/index.mjs';
import { startStack } from '../scripts/stack.mjs';
import { commandsInFlight, directCommand } from './commands.ts';
import { coldCreate, warmCreate } from './create.ts';
import { createEngineApi } from './engine-api.ts';
import type { Bench, Measured, Surroundings } from './measured.ts';
import { output } from './output.ts';

const benches: Readonly<Record<string, Bench>> = {
  direct_command_vs_docker_exec: directCommand,
  commands_in_flight_32_vs_docker_exec: commandsInFlight,
  cold_create_vs_engine: coldCreate,
  warm_create_vs_docker_run: warmCreate,
  output_vs_docker_cli: output,
};

const { values, positionals } = parseArgs({ options: { json: { type: 'boolean' } }, allowPositionals: true });
const found = await setup();
const dataDir = mkdtempSync(join(tmpdir(), 'assay-bench-'));
const stack = await startStack({ setup: found, dataDir });
const client = createClient({ endpoint: stack.endpoint, apiKey: stack.key });
const results: Record<string, Measured> = {};
try {
  const session = await client.sessions.create({ limits: { cpus: 2 } });
  const engine = createEngineApi(found.dockerSocket);
  const around: Surroundings = { client, session, engine, container: `assay-${session.id}`, setup: found, dataDir };
  for (const [name, bench] of Object.entries(benches)) {
    if (positionals.length > 0 && !positionals.includes(name)) continue;
    if (process.stderr.isTTY) process.stderr.write(`${name} …\n`);
    results[name] = await bench(around);
    if (!values.json) print(name, results[name]);
  }
  await session.close();
} finally {
  client.close();
  await stack.stop();
  rmSync(dataDir, { recursive: true, force: true });
}
if (values.json) process.stdout.write(`${JSON.stringify(results)}\n`);

function print(name: string, { ours, reference, unit, ratio, samples }: Measured): void {
  const figures = `${ours.toFixed(2)} ${unit}, reference ${reference.toFixed(2)} ${unit}`;
  process.stdout.write(`${name.padEnd(40)} ${`${ratio.toFixed(2)}×`.padStart(8)}   ${figures}, ${samples} samples\n`);
}
