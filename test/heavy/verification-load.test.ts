import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Client, Session } from '../../clients/typescript/index.ts';
import { startTestStack, type TestStack } from '../e2e/stack.ts';
import { peakResidentMebibytes } from './resident-memory.ts';

const each = 100;
const projects = ['first', 'second'] as const;
const memoryLimitMebibytes = 350;

let stack: TestStack;
beforeAll(async () => {
  stack = await startTestStack({
    env: { sessions: { ASSAY_LIMIT_VERIFICATIONS_PER_PROJECT: String(each) }, worker: { ASSAY_GRADING_POOL: '2' } },
  });
});
afterAll(() => stack?.stop());

const open = (client: Client): Promise<Session> =>
  client.sessions.create({ sample: { dataset: 'examples', id: 'hello-fix' }, limits: { diskBytes: 512 * 1_048_576 } });

test('two hundred verifications of two projects all end, side by side, in bounded memory', async () => {
  const clients = await Promise.all(
    projects.map((project) => stack.clientWith({ project, scopes: ['AGENT', 'GRADER'] })),
  );
  const ended: string[] = [];
  const began = performance.now();
  // The first project has asked for all of its own before the second asks for one.
  const waiting: Promise<void>[] = [];
  for (const [index, client] of clients.entries()) {
    const session = await open(client);
    for (let count = 0; count < each; count++) {
      const { id } = await client.verifications.start(session.id, { force: true });
      waiting.push(
        client.verifications.ended(id).then(({ state, result }) => {
          expect([state, result?.verdict]).toEqual(['COMPLETED', 'FAILED']);
          ended.push(projects[index] as string);
        }),
      );
    }
    await session.close();
  }
  const queuedMs = performance.now() - began;
  const endedBefore = ended.length;
  await Promise.all(waiting);
  const seconds = (performance.now() - began) / 1_000;
  for (const client of clients) client.close();
  const rate = (2 * each) / seconds;
  const { worker, sessions } = stack.stack.pids;
  const peaks = [worker, sessions].map(peakResidentMebibytes);
  console.log(
    `${2 * each} verifications in ${seconds.toFixed(0)} s, ${rate.toFixed(2)} a second; queued in ${(queuedMs / 1_000).toFixed(1)} s, ` +
      `${endedBefore} had ended by then; peak RSS ${peaks.map((peak) => peak.toFixed(0)).join(' and ')} MiB`,
  );
  // From when both had queued until the first is done, neither is ever far ahead.
  const shared = ended.slice(endedBefore);
  const untilFirstIsDone = shared.slice(0, 2 * (each - endedBefore));
  const ofSecond = untilFirstIsDone.filter((project) => project === projects[1]).length;
  expect(ofSecond).toBeGreaterThan(untilFirstIsDone.length * 0.4);
  expect(Math.max(...peaks)).toBeLessThan(memoryLimitMebibytes);
});

/** Looks at the clock all the time, and tells the longest time in which it could not. */
const watchClock = `import os, time
longest = 0.0
before = time.monotonic()
print("ready", flush=True)
while not os.path.exists("/tmp/enough"):
    for _ in range(1000):
        now = time.monotonic()
        longest = max(longest, now - before)
        before = now
print(longest * 1000, flush=True)
`;

test.each([
  ['1 MB', 1],
  ['100 MB', 100],
])('an agent that works while %s is sealed notices only the pause', async (_, megabytes) => {
  const stalls: number[] = [];
  const pauses: number[] = [];
  for (const verified of [false, true, true, true]) {
    await using session = await open(stack.client);
    await session.run(`head -c ${megabytes * 1_000_000} /dev/urandom >data.bin`);
    const clock = session.execute(['python3', '-c', watchClock]);
    let printed = '';
    const looking = Promise.withResolvers<void>();
    const reading = (async () => {
      for await (const event of clock) {
        if (event.type === 'stdout') printed += Buffer.from(event.data).toString();
        if (printed.includes('ready')) looking.resolve();
      }
    })();
    // Started, Python is still a while from looking at the clock, and a pause in that time it would not see.
    await Promise.race([looking.promise, reading]);
    if (verified) {
      const started = await stack.client.verifications.start(session.id, { force: true });
      pauses.push(started.submission.pauseMs);
      await stack.client.verifications.cancel(started.id);
    }
    await session.run('touch /tmp/enough');
    await reading;
    stalls.push(Number(printed.trim().split('\n').at(-1)));
  }
  const [alone, ...during] = stalls.map((ms) => Math.round(ms));
  console.log(`${megabytes} MB: longest stall ${during.join(', ')} ms (told: ${pauses.join(', ')}), ${alone} ms alone`);
  for (const [index, ms] of during.entries()) expect(ms).toBeLessThan((pauses[index] as number) + 1_000);
});
