import { setImmediate as nextTurnOfLoop } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { createWorkShares } from '../../services/shared/work-shares.ts';

/** A clock that only work moves, and shares that go by it. */
function createLoop(sliceMs = 1) {
  let ms = 0;
  const order: string[] = [];
  const shares = createWorkShares({ sliceMs, now: () => ms });
  const work =
    (name: string, takesMs = 1) =>
    () => {
      order.push(name);
      ms += takesMs;
    };
  const idle = async (): Promise<void> => {
    do await nextTurnOfLoop();
    while (shares.waiting > 0);
  };
  return { shares, order, work, idle, advance: (by: number) => (ms += by) };
}

test('work that finds the loop idle runs at once', () => {
  const { shares, order, work } = createLoop();
  shares.run('alpha', work('a'));
  expect(order).toEqual(['a']);
  expect(shares.turn('beta')).toBeInstanceOf(Promise);
});

test('a project that asks for much waits behind itself, and another comes before the rest of its work', async () => {
  const { shares, order, work, idle } = createLoop();
  for (let index = 0; index < 6; index++) shares.run('alpha', work('a'));
  expect(order).toEqual(['a']);
  await nextTurnOfLoop();
  shares.run('beta', work('b'));
  await idle();
  expect(order.indexOf('b')).toBeLessThan(4);
  expect(order).toHaveLength(7);
});

test('the loop turns between slices, so that what others send is read', async () => {
  const { shares, order, work } = createLoop(2);
  for (let index = 0; index < 8; index++) shares.run('alpha', work('a'));
  expect(order).toHaveLength(2);
  await nextTurnOfLoop();
  await nextTurnOfLoop();
  expect(order.length).toBeLessThan(8);
});

test('shares are of time, not of requests', async () => {
  const { shares, order, work, idle } = createLoop();
  for (let index = 0; index < 20; index++) {
    shares.run('long', work('l', 9));
    shares.run('short', work('s', 1));
  }
  await idle();
  const whenShortIsDone = order.slice(0, order.lastIndexOf('s') + 1);
  expect(whenShortIsDone.filter((name) => name === 'l').length).toBeLessThanOrEqual(5);
});

test('what one project gives runs in the order in which it was given', async () => {
  const { shares, order, work, idle } = createLoop();
  for (let index = 0; index < 10; index++) shares.run('alpha', work(String(index)));
  await idle();
  expect(order).toEqual(Array.from({ length: 10 }, (_, index) => String(index)));
});

test('what a turn sets going with promises is counted as its own', async () => {
  const { shares, order, work, idle, advance } = createLoop();
  shares.run('alpha', work('first'));
  const replay = async (project: string, takesMs: number): Promise<void> => {
    for (let index = 0; index < 6; index++) {
      await shares.turn(project);
      await Promise.resolve();
      order.push(project);
      advance(takesMs);
    }
  };
  const both = Promise.all([replay('long', 10), replay('short', 1)]);
  await idle();
  await both;
  expect(order.indexOf('long', 2)).toBeGreaterThan(0);
  expect(order.lastIndexOf('short')).toBeLessThan(order.lastIndexOf('long', order.length - 2));
});

test('a project that was idle gets no credit for it', async () => {
  const { shares, order, work, idle } = createLoop();
  for (let index = 0; index < 50; index++) shares.run('alpha', work('a'));
  await idle();
  for (let index = 0; index < 10; index++) shares.run('alpha', work('a'));
  for (let index = 0; index < 10; index++) shares.run('beta', work('b'));
  await idle();
  const later = order.slice(51);
  expect(later.slice(0, 10).filter((name) => name === 'b').length).toBeLessThanOrEqual(6);
});

test('a project that is alone is interrupted less often', async () => {
  let ms = 0;
  const shares = createWorkShares({ sliceMs: 1, aloneSliceMs: 8, now: () => ms });
  const startedAtOnce = (): number => {
    let done = 0;
    for (let index = 0; index < 20; index++)
      shares.run('alpha', () => {
        done++;
        ms++;
      });
    return done;
  };
  const idle = async (): Promise<void> => {
    do await nextTurnOfLoop();
    while (shares.waiting > 0);
  };
  shares.run('alpha', () => {});
  ms += 5_000;
  await idle();
  expect(startedAtOnce()).toBe(8);
  await idle();
  shares.run('beta', () => {});
  await idle();
  expect(startedAtOnce()).toBe(1);
  await idle();
});

test('a project whose work ran while the process was frozen does not pay for that', async () => {
  const { shares, order, work, idle, advance } = createLoop();
  shares.run('alpha', work('a'));
  advance(60_000);
  for (let index = 0; index < 100; index++) shares.run('beta', work('b', 100));
  shares.run('alpha', work('a'));
  await idle();
  expect(order.lastIndexOf('a')).toBeLessThan(20);
});

test('a project leaves half of the time idle while another works, and takes all of it alone', async () => {
  const shares = createWorkShares({ busyPart: 0.5 });
  const busy = (ms: number) => () => {
    for (const end = performance.now() + ms; performance.now() < end; );
  };
  const idleBetween = async (): Promise<number> => {
    const began = performance.now();
    let worked = 0;
    for (let index = 0; index < 20; index++) {
      await shares.turn('alpha');
      const start = performance.now();
      busy(2)();
      worked += performance.now() - start;
    }
    return performance.now() - began - worked;
  };
  shares.run('beta', () => {});
  shares.run('alpha', () => {});
  // Twenty times two milliseconds, each but the first after as long a rest.
  expect(await idleBetween()).toBeGreaterThan(25);
  // Another project still finds the loop idle, and alpha waits.
  await shares.turn('alpha');
  busy(20)();
  expect(shares.turn('alpha')).toBeInstanceOf(Promise);
  await nextTurnOfLoop();
  expect(shares.turn('beta')).toBeUndefined();
});

test('a project that is alone does not rest', async () => {
  let ms = 0;
  const shares = createWorkShares({ busyPart: 0.5, sliceMs: 1, aloneSliceMs: 1_000, now: () => ms });
  shares.run('alpha', () => {});
  ms += 5_000;
  await nextTurnOfLoop();
  let done = 0;
  for (let index = 0; index < 50; index++)
    shares.run('alpha', () => {
      done++;
      ms += 2;
    });
  expect(done).toBe(50);
});

test('what a project took alone is not held against it when another comes', async () => {
  let ms = 0;
  const shares = createWorkShares({ busyPart: 0.5, sliceMs: 1, now: () => ms });
  shares.run('alpha', () => {});
  ms += 5_000;
  for (let index = 0; index < 100; index++) {
    await nextTurnOfLoop();
    shares.run('alpha', () => {
      ms += 20;
    });
  }
  await nextTurnOfLoop();
  shares.run('beta', () => {});
  ms += 1;
  await nextTurnOfLoop();
  expect(shares.turn('alpha')).toBeUndefined();
});

test('a long message costs more than the time of its work while another project works', async () => {
  let ms = 0;
  const shares = createWorkShares({ busyPart: 0.5, sliceMs: 1, mebibyteMs: 10, now: () => ms });
  const bytes = 1_048_576;
  shares.run('beta', () => {});
  await nextTurnOfLoop();
  expect(shares.turn('alpha', bytes)).toBeUndefined();
  await nextTurnOfLoop();
  ms += 15;
  await nextTurnOfLoop();
  const next = shares.turn('alpha', bytes);
  expect(next).toBeInstanceOf(Promise);
  ms += 15;
  await next;
  await nextTurnOfLoop();
  ms += 25;
  expect(shares.turn('beta')).toBeUndefined();
});
