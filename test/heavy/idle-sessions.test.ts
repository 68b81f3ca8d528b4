import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Session } from '../../clients/typescript/index.ts';
import { createEngineProbe } from '../e2e/engine-probe.ts';
import { startTestStack, type TestStack } from '../e2e/stack.ts';
import { family, type ProcessCost, processCost, sumOf } from './process-cost.ts';

const count = 100;
/** The engine is quickest with two creates in flight. */
const inFlight = 2;
const idleMs = 20_000;

let stack: TestStack;
beforeAll(async () => {
  stack = await startTestStack();
});
afterAll(() => stack?.stop(), 600_000);

async function inPairs<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  const rest = items.entries();
  const one = async () => {
    for (const [index, item] of rest) results[index] = await work(item);
  };
  await Promise.all(Array.from({ length: inFlight }, one));
  return results;
}

async function openSession(): Promise<Session> {
  const session = await stack.client.sessions.create({ limits: { memoryBytes: 64 * 1_048_576 } });
  expect((await session.run('echo awake')).exitCode).toBe(0);
  const shell = await session.openShell();
  expect((await shell.run('echo awake')).exitCode).toBe(0);
  return session;
}

function worker(): ProcessCost {
  return processCost(stack.stack.pids.worker ?? 0);
}

/** What the time costs in which nobody asks for anything. */
async function idle(guests: readonly number[]): Promise<{ workerMs: number; guestSleeps: number; guestTicks: number }> {
  const before = { worker: worker(), guests: sumOf(guests.map(processCost)) };
  await delay(idleMs);
  const after = { worker: worker(), guests: sumOf(guests.map(processCost)) };
  return {
    workerMs: (after.worker.ticks - before.worker.ticks) * 10,
    guestSleeps: after.guests.sleeps - before.guests.sleeps,
    guestTicks: after.guests.ticks - before.guests.ticks,
  };
}

const each = (more: number) => (more / count).toFixed(2);

test('a hundred idle sessions with a shell each cost little, wake nobody, and leave nothing when they are closed', async () => {
  const probe = createEngineProbe();
  // The first sessions make what all later ones share.
  await Promise.all((await inPairs(Array.from({ length: 10 }), openSession)).map((session) => session.close()));
  const before = worker();
  const quiet = await idle([]);

  const sessions = await inPairs(Array.from({ length: count }), openSession);
  const guests = await inPairs(sessions, async ({ id }) => {
    const { State } = await (await probe.containerOf(id)).inspect();
    return State.Pid;
  });
  expect(new Set(guests).size).toBe(count);
  // Two commands may still be clearing up behind themselves.
  await delay(2_000);
  const during = worker();
  const households = guests.map((pid) => sumOf(family(pid).map(processCost)));
  const inside = sumOf(households);
  const processes = guests.reduce((total, pid) => total + family(pid).length, 0);
  const busy = await idle(guests);

  await inPairs(sessions, (session) => session.close());
  // What served the closing, a connection to the engine for one, goes a little later.
  await expect.poll(() => worker().descriptors, { timeout: 30_000 }).toBeLessThanOrEqual(before.descriptors + 3);
  const after = worker();
  console.log(
    [
      `worker, each session: ${each(during.residentKib - before.residentKib)} KiB resident, ` +
        `${each(during.descriptors - before.descriptors)} descriptors, ${each(during.threads - before.threads)} threads`,
      `guest, shell and prepared processes (${each(processes)} in all), each session: ${each(inside.proportionalKib)} KiB of its own, ` +
        `${each(inside.descriptors)} descriptors, ${each(inside.threads)} threads`,
      `worker in ${idleMs / 1_000} idle seconds: ${quiet.workerMs} ms of CPU with no session, ${busy.workerMs} ms with ${count}`,
      `${count} guests in that time: woken ${busy.guestSleeps} times, ${busy.guestTicks * 10} ms of CPU`,
      `worker before / with / after: ${[before, during, after].map((cost) => `${Math.round(cost.residentKib / 1_024)} MiB, ${cost.descriptors} fds, ${cost.threads} threads`).join(' / ')}`,
    ].join('\n'),
  );

  // A guest that polled even once in ten seconds would be seen here.
  expect(busy.guestSleeps).toBeLessThan(count);
  // The socket, its guest, the journal, and the control files of the nests that wait.
  expect((during.descriptors - before.descriptors) / count).toBeLessThan(20);
  expect(during.threads).toBe(before.threads);
  expect((busy.workerMs - quiet.workerMs) / idleMs).toBeLessThan(0.1);
  expect(after.threads).toBe(before.threads);
  expect(after.residentKib - before.residentKib).toBeLessThan(40 * 1_024);
});
