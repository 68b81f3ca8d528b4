import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { inject } from 'vitest';
import { type Client, type CreateKeyOptions, createClient } from '../../clients/typescript/index.ts';
import { type ChildName, type Stack, type StackOptions, startStack } from '../../scripts/stack.mjs';
import { runDirectory, runId } from '../run.ts';
import { shareManifests } from '../shared-manifests.ts';

let made = 0;

/** A machine that runs other things too may be ten times slower than the one that this was written on. */
export const readyWithinMs = 180_000;

/** A whole running system of its own: broker, worker, sessions service, on a free port, with a client for it. */
export interface TestStack {
  readonly stack: Stack;
  readonly client: Client;
  readonly endpoint: string;
  readonly key: string;
  /** A client with a key of its own, closed with the stack. */
  clientWith(key: CreateKeyOptions): Promise<Client>;
  /** Kills a service, and resolves when another process has taken its place and the public port is healthy. */
  replace(name: ChildName): Promise<void>;
  stop(): Promise<void>;
}

export interface TestStackOptions extends Omit<StackOptions, 'setup' | 'dataDir'> {
  /** Called with the empty data directory: a disk may be mounted there. */
  prepare?: (dataDir: string) => void;
}

export async function startTestStack({ prepare, ...options }: TestStackOptions = {}): Promise<TestStack> {
  const dataDir = join(runDirectory(), `${process.pid}-${made++}`);
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  prepare?.(dataDir);
  const manifests = shareManifests(inject('setup').dataDir, join(dataDir, 'worker'));
  shareLayers(join(dataDir, 'worker'));
  // Containers are found by this label when the run looks for what is left.
  writeFileSync(join(dataDir, 'installation'), `${runId()}-${process.pid}-${made}`, { mode: 0o600 });
  // A test that wants warm sandboxes asks for them: they cost every other a container and the time to make it.
  const env = { ...options.env, worker: { ASSAY_WARM_POOL: '0', ASSAY_GRADING_POOL: '0', ...options.env?.worker } };
  const stack = await startStack({ readyWithinMs, ...options, env, dataDir, setup: inject('setup') });
  const { endpoint, key } = stack;
  const clients = [createClient({ endpoint, apiKey: key })];
  const [client] = clients as [Client];
  return {
    stack,
    client,
    endpoint,
    key,
    async clientWith(options) {
      const { secret } = await client.keys.create(options);
      const made = createClient({ endpoint, apiKey: secret });
      clients.push(made);
      return made;
    },
    replace: (name) => replace(stack, name),
    async stop() {
      for (const each of clients) each.close();
      await stack.stop();
      manifests.collect();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

async function replace(stack: Stack, name: ChildName): Promise<void> {
  const before = stack.restarts(name);
  // It may just be starting again: each call ends a process of its own.
  while (!stack.kill(name)) await delay(5);
  while (stack.restarts(name) === before) await delay(5);
  await stack.ready();
}

/** Copies of image layers are named by the layer and kept from run to run: making one takes seconds. */
function shareLayers(workerDirectory: string): void {
  const shared = join(inject('setup').dataDir, 'layers');
  for (const directory of [shared, workerDirectory]) mkdirSync(directory, { recursive: true, mode: 0o700 });
  symlinkSync(shared, join(workerDirectory, 'layers'));
}
