import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setup } from '../scripts/setup/index.mjs';
import { type Stack, startStack } from '../scripts/stack.mjs';
import { runCommandLine } from './main.ts';

/** A stack of its own beside whatever runs, on the same engine: images that were built stay. */
const dataDir = mkdtempSync(join(tmpdir(), 'assay-validate-'));
let stack: Stack | undefined;
// A signal may come twice: to the group, and from npm.
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.on(signal, () => void cleanUp().then(() => process.exit(1)));
try {
  stack = await startStack({ setup: await setup(), dataDir, env: { worker: { ASSAY_WARM_POOL: '0' } } });
  const env = { ...process.env, ASSAY_ENDPOINT: stack.endpoint, ASSAY_API_KEY: stack.key };
  const { stdin, stdout, stderr } = process;
  const words = ['samples', 'validate', 'examples', ...process.argv.slice(2)];
  process.exitCode = await runCommandLine(words, { stdin, stdout, stderr, env });
} finally {
  await cleanUp();
}

async function cleanUp(): Promise<void> {
  await stack?.stop();
  rmSync(dataDir, { recursive: true, force: true });
}
