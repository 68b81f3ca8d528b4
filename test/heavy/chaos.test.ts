import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createClient, type Execution, type Session } from '../../clients/typescript/index.ts';
import { startTestStack, type TestStack } from '../e2e/stack.ts';

const executions = 300;
/** Half of them of the worker, half of the sessions service. */
const killsWanted = 24;
const directLanes = 5;
const shellLanes = 5;
const shellPrograms = [['bash'], ['dash'], ['zsh'], ['busybox', 'ash'], []];

let stack: TestStack;
let road: Road;
beforeAll(async () => {
  stack = await startTestStack();
  road = await openRoad(new URL(stack.stack.endpoint));
  console.log(`ASSAY_CHAOS_SEED=${seed} makes the same row of choices again`);
});
afterAll(async () => {
  road?.close();
  await stack?.stop();
});

/** A way to the server that can be cut. */
interface Road {
  readonly endpoint: string;
  cut(): void;
  close(): void;
}

async function openRoad(server: URL): Promise<Road> {
  const sockets = new Set<Socket>();
  const listener = createServer((near) => {
    const far = connect(Number(server.port), server.hostname);
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => {
        sockets.delete(socket);
        other.destroy();
      });
      socket.pipe(other);
    }
  }).listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const cut = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    endpoint: `http://127.0.0.1:${(listener.address() as AddressInfo).port}`,
    cut,
    close() {
      listener.close();
      cut();
    },
  };
}

type Streams = { stdout: Buffer; stderr: Buffer };

const seed = Number(process.env.ASSAY_CHAOS_SEED ?? Date.now() % 2 ** 31);
let state = seed;

/** From 0 to 1, the same row of numbers for the same seed (mulberry32). */
function random(): number {
  state = (state + 0x6d2b79f5) | 0;
  let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
}

const below = (limit: number): number => Math.floor(random() * limit);
const some = (chance: number): boolean => random() < chance;

/** What one execution runs, and what must come of it. */
function plan(number: number): { text: string; expected: Streams; code: number } {
  // Some print more than a shared stream carries (256 KiB), or the guest keeps (1 MiB).
  const lines = some(0.2) ? 20_000 + below(130_000) : below(3_000);
  const errors = below(300);
  const code = number % 100;
  // A subshell, since a shell that is told to exit would.
  const text = `echo ${number} >>/tmp/ran
seq -f "${number} out %.0f" ${lines}; ${some(0.3) ? `sleep 0.${below(4)}` : ':'}
seq -f "${number} err %.0f" ${errors} >&2; (exit ${code})`;
  const written = (word: string, count: number) =>
    Buffer.from(Array.from({ length: count }, (_, index) => `${number} ${word} ${index + 1}\n`).join(''));
  return { text, code, expected: { stdout: written('out', lines), stderr: written('err', errors) } };
}

/** Reads events into `found` from where each stream stands, and stops after so many. False: it was the end. */
async function read(execution: Execution, found: Streams, offsets: { stdout: number; stderr: number }, most: number) {
  let left = most;
  for await (const event of execution) {
    if (event.type === 'gap') throw new Error(`a gap of ${event.stream} from ${event.from} to ${event.to}`);
    if (event.type === 'stdout' || event.type === 'stderr') {
      expect(event.offset).toBe(offsets[event.type]);
      const before = found[event.type].subarray(0, offsets[event.type]);
      const again = found[event.type].subarray(offsets[event.type], offsets[event.type] + event.data.length);
      // What comes a second time must be what came the first time.
      expect(Buffer.from(event.data).subarray(0, again.length).equals(again)).toBe(true);
      offsets[event.type] += event.data.length;
      if (offsets[event.type] > found[event.type].length) found[event.type] = Buffer.concat([before, event.data]);
    }
    if (--left <= 0 && event.type !== 'finished') return true;
  }
  return false;
}

/** Runs one, leaving and coming back at random places. */
async function runOne(session: Session, shellId: string | undefined, number: number): Promise<void> {
  const { text, expected, code } = plan(number);
  const id = `chaos-${number}`;
  const found: Streams = { stdout: Buffer.alloc(0), stderr: Buffer.alloc(0) };
  const offsets = { stdout: 0, stderr: 0 };
  let execution = session.execute(text, { id, ...(shellId === undefined ? {} : { shellId }) });
  while (await read(execution, found, offsets, some(0.5) ? 1 + below(6) : Number.POSITIVE_INFINITY)) {
    execution.detach();
    for (const stream of ['stdout', 'stderr'] as const)
      if (some(0.5)) offsets[stream] = below(found[stream].length + 1);
    execution = session.attach(id, { stdoutOffset: offsets.stdout, stderrOffset: offsets.stderr });
  }
  const result = await execution.result();
  expect([number, result.reason, result.exitCode]).toEqual([number, 'EXITED', code]);
  expect(found.stdout.equals(expected.stdout)).toBe(true);
  expect(found.stderr.equals(expected.stderr)).toBe(true);
}

test(`${executions} executions survive cut connections and ${killsWanted} kills, each once, with every byte and the right code`, async () => {
  const client = createClient({ endpoint: road.endpoint, apiKey: stack.key });
  const session = await client.sessions.create({ limits: { pids: 1_024 } });
  const shells = await Promise.all(shellPrograms.slice(0, shellLanes).map((program) => session.openShell({ program })));
  const places = [...shells.map(({ id }) => id), ...Array.from({ length: directLanes }, () => undefined)];
  let next = 0;
  let kills = 0;
  let killed = Promise.withResolvers<void>();
  const lanes = places.map(async (shellId) => {
    while (next < executions) {
      const number = next++;
      // On a fast machine the commands wait for the kills, so that these come in between everywhere.
      while (kills < Math.floor((number / executions) * killsWanted)) await killed.promise;
      await runOne(session, shellId, number);
    }
  });
  const killing = (async () => {
    while (kills < killsWanted) {
      await delay(below(600));
      const name = kills % 2 === 0 ? 'worker' : 'sessions';
      const before = stack.stack.restarts(name);
      if (!stack.stack.kill(name)) continue;
      if (some(0.5)) road.cut();
      while (stack.stack.restarts(name) === before) await delay(5);
      if (some(0.5)) road.cut();
      // All is back when a command gets through.
      await session.run(['true']);
      kills++;
      killed.resolve();
      killed = Promise.withResolvers<void>();
    }
  })();
  await Promise.all([...lanes, killing]);
  const ran = String((await session.run('cat /tmp/ran')).stdout)
    .trim()
    .split('\n')
    .map(Number);
  expect(ran.sort((a, b) => a - b)).toEqual(Array.from({ length: executions }, (_, number) => number));
  for (const shell of shells) expect((await shell.refresh()).timesOpened).toBe(1);
  await session.close();
  client.close();
});
