import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ExecutionEvent, Session } from '../../clients/typescript/index.ts';
import { startTestStack, type TestStack } from './stack.ts';

const mebibyte = 1_048_576;
let stack: TestStack;
let session: Session;

beforeAll(async () => {
  stack = await startTestStack({ env: { worker: { ASSAY_SPOOL_BYTES: String(16 * mebibyte) } } });
  session = await stack.client.sessions.create({});
});
afterAll(async () => {
  await session?.close();
  await stack?.stop();
});

async function print(bytes: number): Promise<string> {
  const execution = session.execute(`head -c ${bytes} /dev/zero; head -c 5000 /dev/zero >&2`);
  await execution.result();
  return execution.id;
}

/** What a reader from the beginning gets: the gaps, the bytes beside them, the last event. */
async function read(id: string) {
  const gaps: [string, number, number][] = [];
  let bytes = 0;
  let last: ExecutionEvent | undefined;
  for await (const event of session.attach(id)) {
    if (event.type === 'gap') gaps.push([event.stream, event.startOffset, event.endOffset]);
    if (event.type === 'stdout' || event.type === 'stderr') bytes += event.data.length;
    last = event;
  }
  return { gaps: gaps.sort(), bytes, last: last?.type };
}

const whole = (bytes: number) => ({ gaps: [], bytes: bytes + 5_000, last: 'finished' });
const dropped = (bytes: number) => ({
  gaps: [
    ['stderr', 0, 5_000],
    ['stdout', 0, bytes],
  ],
  bytes: 0,
  last: 'finished',
});

describe('a worker whose spools outgrow their budget', () => {
  test('drops what ended longest ago, tells it as gaps, and remembers both over a restart', async () => {
    const size = 6 * mebibyte;
    const first = await print(size);
    const second = await print(size);
    expect([await read(first), await read(second)]).toEqual([whole(size), whole(size)]);
    const third = await print(size);
    expect([await read(first), await read(second), await read(third)]).toEqual([
      dropped(size),
      whole(size),
      whole(size),
    ]);

    await stack.replace('worker');
    expect([await read(first), await read(second), await read(third)]).toEqual([
      dropped(size),
      whole(size),
      whole(size),
    ]);
    const fourth = await print(size);
    expect([await read(second), await read(third), await read(fourth)]).toEqual([
      dropped(size),
      whole(size),
      whole(size),
    ]);
  });

  test('takes the middle of a running execution when nothing else is left, and the worker may die then too', async () => {
    const size = 24 * mebibyte;
    const command = `head -c ${size} /dev/zero; echo done >&2; cat; echo end`;
    const execution = session.execute(command, { input: true, outputKeptBytes: 64 * mebibyte });
    await execution.started;
    for await (const event of session.attach(execution.id)) if (event.type === 'stderr') break;
    await stack.replace('worker');
    await execution.stdin.end();
    expect(await execution.result()).toMatchObject({ reason: 'EXITED', stdoutBytes: size + 4 });
    const { gaps, bytes, last } = await read(execution.id);
    expect([gaps.length, gaps[0]?.[0], gaps[0]?.[1], last]).toEqual([1, 'stdout', 262_144, 'finished']);
    const [, from, to] = gaps[0] ?? ['', 0, 0];
    expect(bytes + to - from).toBe(size + 4 + 5);
    expect(bytes).toBeLessThan(16 * mebibyte);
  });
});
