import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { dirname, join } from 'node:path';
import { inject } from 'vitest';
import type { TestStack } from './stack.ts';

const main = new URL('../../services/sandbox-worker/main.ts', import.meta.url).pathname;

/** Starts a worker beside that of the stack, on the same broker and engine, with a directory `worker-2` of its own. */
export function startSecondWorker({ stack }: TestStack, settings: Record<string, string> = {}): ChildProcess {
  const { dockerSocket, baseImage, guestPath, isolatedPath } = inject('setup');
  const env = {
    PATH: process.env.PATH,
    ASSAY_NATS_URL: stack.natsUrl,
    ASSAY_NATS_AUTH_FILE: stack.natsAuthFile,
    ASSAY_WORKER_TOKEN_FILE: stack.workerTokenFile,
    ASSAY_DATA_DIR: join(stack.dataDir, 'worker-2'),
    ASSAY_DOCKER_SOCKET: dockerSocket,
    ASSAY_BASE_IMAGE: baseImage,
    ASSAY_GUEST_PATH: guestPath,
    ASSAY_ISOLATED_PATH: isolatedPath,
    ASSAY_NETDOOR_PATH: join(dirname(guestPath), 'netdoor'),
    ASSAY_WORKER_LISTEN: '127.0.0.1:0',
    ASSAY_ON_STOP: 'close',
    ASSAY_INSTALLATION: `${stack.installation}-2`,
    ASSAY_WARM_POOL: '0',
    ASSAY_GRADING_POOL: '0',
    ...settings,
  };
  return spawn(process.execPath, ['--disable-warning=ExperimentalWarning', main], { env, stdio: 'ignore' });
}

/** Resolves when it has closed its sandboxes and ended. */
export async function stopSecondWorker(worker: ChildProcess | undefined): Promise<void> {
  if (worker === undefined || worker.exitCode !== null || worker.signalCode !== null) return;
  const ended = once(worker, 'exit');
  worker.kill('SIGTERM');
  await ended;
}
