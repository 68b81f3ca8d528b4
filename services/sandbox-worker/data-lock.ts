import { createHash, randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { ConfigError } from '../shared/config.ts';

/**
 * Makes this process the only worker of its data directory, for as long as it lives. An abstract socket is the lock: the
 * kernel frees it with the process, so there is no stale lock to judge.
 */
export async function lockDataDirectory(directory: string): Promise<void> {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const name = createHash('sha256').update(realpathSync(directory)).digest('hex').slice(0, 32);
  const server = createServer((socket) => socket.destroy());
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EADDRINUSE') reject(error);
      else reject(new ConfigError(`ASSAY_DATA_DIR: another worker runs in ${directory}; stop it or choose another`));
    });
    server.listen(`\0assay-worker-${name}`, () => resolve());
  });
  server.unref();
}

/** The worker's id, made once and kept in its data directory. */
export function workerIdOf(directory: string): string {
  const path = join(directory, 'worker-id');
  if (!existsSync(path)) writeFileSync(path, `wrk-${randomBytes(8).toString('hex')}`, { mode: 0o600 });
  return readFileSync(path, 'utf8').trim();
}

/** The id is used up: the next worker in this directory is another one. */
export function dropWorkerId(directory: string): void {
  rmSync(join(directory, 'worker-id'), { force: true });
}
