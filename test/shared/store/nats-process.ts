import { type ChildProcess, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { inject } from 'vitest';
import { runDirectory } from '../../run.ts';

/** A nats-server of a test's own: a free port, credentials, a store that survives its death. */
export interface NatsProcess {
  readonly url: string;
  readonly user: string;
  readonly password: string;
  /** SIGKILL, as a crash would. Resolves when it is gone. */
  kill(): Promise<void>;
  /** Starts it again on the same port and store. Resolves when it is ready. */
  start(): Promise<void>;
  /** Ends it and removes its store. */
  stop(): Promise<void>;
}

/**
 * Below those that the kernel gives to whoever connects, and beside those of whole stacks: one that is free while the broker is down would be somebody else's
 * when it is started again.
 */
const [firstPort, lastPort] = [10_000, 19_999];

class PortTaken extends Error {}

const user = 'assay';
const password = 'a password of the tests';

/** `more`: further lines of its configuration. */
export async function startNats(more = ''): Promise<NatsProcess> {
  const directory = mkdtempSync(join(runDirectory(), 'nats-'));
  let child: ChildProcess | undefined;
  let port = 0;

  const start = async (): Promise<void> => {
    const config = join(directory, 'nats.conf');
    writeFileSync(
      config,
      `host: 127.0.0.1\nport: ${port}\njetstream { store_dir: ${JSON.stringify(directory)} }\n` +
        `authorization { user: ${user}, password: ${JSON.stringify(password)} }\n${more}\n`,
    );
    const started = spawn(inject('natsServer'), ['-c', config], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    child = started;
    for await (const line of createInterface({ input: started.stderr })) {
      if (line.includes('Server is ready')) break;
      if (line.includes('address already in use')) throw new PortTaken(line);
      if (line.includes('[FTL]')) throw new Error(line);
    }
    started.stderr.resume();
  };
  const startSomewhere = async (): Promise<void> => {
    for (let tries = 1; ; tries += 1) {
      port = randomInt(firstPort, lastPort + 1);
      try {
        return await start();
      } catch (error) {
        if (!(error instanceof PortTaken) || tries === 20) throw error;
        await kill();
      }
    }
  };
  const kill = async (): Promise<void> => {
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  };
  await startSomewhere();
  return {
    get url() {
      return `nats://127.0.0.1:${port}`;
    },
    user,
    password,
    kill,
    start,
    async stop() {
      await kill();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}
