#!/usr/bin/env node
// npm run stop: ends the Docker engine that set-up started, and no other.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { createEngineApi, defaultSocket } from './setup/engine-api.mjs';
import { startedEngine, stopEngine } from './setup/engine-process.mjs';
import { reportAndExit, SetupFailure } from './setup/failure.mjs';
import { lockHolder, takeLock } from './setup/lock.mjs';
import { dataDirectory } from './setup/paths.mjs';
import { step } from './setup/progress.mjs';

async function main() {
  const lock = await refuseWhileServing();
  try {
    if (!startedEngine()) {
      const other = await createEngineApi(defaultSocket).answers();
      // One that was killed leaves its mounts and its record.
      if (!other && process.getuid?.() === 0) await stopEngine();
      process.stdout.write(
        other
          ? 'The Docker engine that runs here was not started by set-up: left alone.\n'
          : 'No Docker engine that set-up started is running.\n',
      );
      return;
    }
    if (process.getuid?.() !== 0) throw new SetupFailure('the engine belongs to root', 'sudo npm run stop');
    const { ended, mounted } = await step('Stopping the Docker engine', () => stopEngine());
    process.stdout.write(`Ended ${ended.map(({ name, pid }) => `${name} (${pid})`).join(', ')}.\n`);
    for (const point of mounted) process.stdout.write(`Still mounted, because something uses it: ${point}\n`);
  } finally {
    await lock?.release();
  }
}

async function refuseWhileServing() {
  const file = join(dataDirectory(), 'stack.lock');
  if (!existsSync(file)) return undefined;
  const lock = await takeLock(file, { wait: false, purpose: 'stopping the engine' });
  if (lock) return lock;
  const pid = lockHolder(file)?.pid ?? 'unknown';
  throw new SetupFailure(`Assay still serves (process ${pid}) and needs its engine`, `kill ${pid}, then npm run stop`);
}

main().catch(reportAndExit);
