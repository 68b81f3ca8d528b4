import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import type { Client, Session } from '../clients/typescript/index.ts';
import { alternate, type Bench, fasterIsLess, median, timed } from './measured.ts';

/**
 * A session made from nothing and ready for commands, against the engine's bare create and start of the same image with
 * the same limits but the disk's, which the engine does not have. Removal is not timed.
 */
export const coldCreate: Bench = async ({ client, engine, setup }) => {
  const remove: Array<() => Promise<unknown>> = [];
  const body = {
    Image: setup.baseImage,
    Cmd: ['sleep', '1000'],
    User: '1000:1000',
    HostConfig: {
      NetworkMode: 'none',
      CapDrop: ['ALL'],
      SecurityOpt: ['no-new-privileges'],
      PidsLimit: 512,
      Memory: 1_073_741_824,
      NanoCpus: 1_000_000_000,
    },
  };
  const ours = async () => {
    // Limits of its own: the warm pool has none of these.
    const session = await client.sessions.create({ limits: { pids: 511 } });
    if (session.info.warm) throw new Error('the session was warm');
    remove.push(() => session.close());
  };
  const reference = async () => {
    const id = await engine.createAndStart(body);
    remove.push(() => engine.remove(id));
  };
  const clean = async () => {
    for (const one of remove.splice(0)) await one();
  };
  const rounds = 12;
  const all = { ours: [] as number[], reference: [] as number[] };
  for (let round = 0; round < rounds; round++) {
    const { ours: a, reference: b } = await alternate(1, ours, reference, { ours: 1, reference: 1 });
    all.ours.push(a);
    all.reference.push(b);
    await clean();
  }
  const middle = (values: number[]) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)] as number;
  return fasterIsLess({ ours: middle(all.ours), reference: middle(all.reference), samples: rounds });
};

/** How long the machine is left alone after the pool was filled, so that what made it has ended. */
const settleMs = 300;

/** A service that made sessions before has compiled what that takes. */
const warmUps = 16;

/**
 * From nothing to the first output of a command: a session of the warm pool, against `docker run` of the same image with
 * the same limits but the disk's. The pool is full before each; closing and removal are not timed.
 */
export const warmCreate: Bench = async ({ client, setup }) => {
  const env = { ...process.env, DOCKER_HOST: `unix://${setup.dockerSocket}` };
  const hardened = ['--network=none', '--cap-drop=ALL', '--security-opt=no-new-privileges', '--user=1000:1000'];
  const limited = ['--pids-limit=512', '--memory=1g', '--cpus=1'];
  const args = ['run', '--rm', ...hardened, ...limited, setup.baseImage, 'echo', 'hi'];
  const times = { ours: [] as number[], reference: [] as number[] };
  const rounds = 16;
  for (let round = -warmUps; round < rounds; round++) {
    const ms = await warmSession(client);
    if (round < 0) continue;
    times.ours.push(ms);
    await poolIsFull(client);
    const start = performance.now();
    const docker = spawn('docker', args, { env, stdio: ['ignore', 'pipe', 'inherit'] });
    await once(docker.stdout, 'data');
    times.reference.push(performance.now() - start);
    await once(docker, 'close');
  }
  return fasterIsLess({ ours: median(times.ours), reference: median(times.reference), samples: rounds });
};

/** How long it takes from asking for a session to its first output. */
async function warmSession(client: Client): Promise<number> {
  await poolIsFull(client);
  let session: Session | undefined;
  const ms = await timed(async () => {
    session = await client.sessions.create({});
    for await (const event of session.execute(['echo', 'hi'])) if (event.type === 'stdout') break;
  });
  if (!session?.info.warm) throw new Error('the session was not warm');
  await session.close();
  return ms;
}

async function poolIsFull(client: Client): Promise<void> {
  await delay(settleMs);
  for (;;) {
    const workers = await Array.fromAsync(client.workers.list());
    if (workers.every(({ warmCount, warmCapacity }) => warmCount === warmCapacity)) break;
    await delay(50);
  }
  await delay(settleMs);
}
