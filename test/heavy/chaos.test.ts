import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createClient } from '../../clients/typescript/index.ts';
import { startTestStack, type TestStack } from '../e2e/stack.ts';
import { numbersRun, runPlanned } from './planned-execution.ts';
import { openRoad, type Road } from './road.ts';
import { createSeededRandom } from './seeded-random.ts';

const executions = 300;
/** Half of them of the worker, half of the sessions service. */
const killsWanted = 24;
const directLanes = 5;
const shellLanes = 5;
const shellPrograms = [['bash'], ['dash'], ['zsh'], ['busybox', 'ash'], []];

const seed = Number(process.env.ASSAY_CHAOS_SEED ?? Date.now() % 2 ** 31);
const random = createSeededRandom(seed);
const { below, some } = random;

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
      await runPlanned(session, shellId, number, random);
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
  expect(await numbersRun(session)).toEqual(Array.from({ length: executions }, (_, number) => number));
  for (const shell of shells) expect((await shell.refresh()).openCount).toBe(1);
  await session.close();
  client.close();
});
