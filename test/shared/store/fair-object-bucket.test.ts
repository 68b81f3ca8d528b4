import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Broker, connectBroker } from '../../../services/shared/store/broker.ts';
import { fairLosses, makingRoom } from '../../../services/shared/store/fair-losses.ts';
import { createFairObjectBucket, type FairObjectBucket } from '../../../services/shared/store/fair-object-bucket.ts';
import {
  createNatsSubmissionLookup,
  createNatsSubmissionObjects,
} from '../../../services/shared/store/submission-objects.ts';
import { type NatsProcess, startNats } from './nats-process.ts';

const keeping = { keepMs: 3_600_000, maxBytes: 2 ** 21, replicas: 1 };
let nats: NatsProcess;
let broker: Broker;

beforeAll(async () => {
  nats = await startNats();
  broker = await connectBroker({ url: nats.url, user: nats.user, password: nats.password, name: 'test', replicas: 1 });
});
afterAll(async () => {
  await broker.close();
  await nats.stop();
});

async function* pieces(bytes: Uint8Array): AsyncGenerator<Uint8Array, void> {
  yield bytes;
}

/** Stores this many objects of 200 kB, and says their names. */
async function fill(objects: FairObjectBucket, project: string, count: number): Promise<string[]> {
  const names = Array.from({ length: count }, (_, each) => `${project}/${each}`);
  for (const name of names) await objects.put(name, pieces(randomBytes(200_000)), 200_000);
  return names;
}

async function kept(objects: FairObjectBucket, names: readonly string[]): Promise<string[]> {
  const there = await Promise.all(names.map(async (name) => (await objects.storedMs(name)) !== undefined));
  return names.filter((_, index) => there[index]);
}

test('a project that stores a lot pushes out none of the objects of another', async () => {
  const objects = await createFairObjectBucket(broker, 'test_fair', keeping);
  const quiet = await fill(objects, 'quiet', 2);
  const busy = await fill(objects, 'busy', 20);
  expect(await kept(objects, quiet)).toEqual(quiet);
  const left = await kept(objects, busy);
  expect(left.length).toBeGreaterThan(3);
  expect(left).toEqual(busy.slice(-left.length));
  // Another one comes: the busy one makes room, down to what the others have.
  const late = await fill(objects, 'late', 3);
  expect(await kept(objects, [...quiet, ...late])).toEqual([...quiet, ...late]);
});

test('one project alone has all of it, and several at once stay within it', async () => {
  const objects = await createFairObjectBucket(broker, 'test_alone', keeping);
  expect(await kept(objects, await fill(objects, 'alone', 9))).toHaveLength(9);
  await Promise.all(['a', 'b', 'c'].map((project) => fill(objects, project, 3)));
  expect(await kept(objects, ['alone/8', ...['a', 'b', 'c'].map((project) => `${project}/2`)])).toHaveLength(4);
});

test('uploads of one project, more at once than fit, cost another project nothing', async () => {
  const objects = await createFairObjectBucket(broker, 'test_flood', keeping);
  await objects.put('modest/0', pieces(randomBytes(4_096)), 4_096);
  const begun = Promise.withResolvers<void>();
  async function* held(): AsyncGenerator<Uint8Array, void> {
    begun.resolve();
    await stored.promise;
    yield randomBytes(100_000);
  }
  const stored = Promise.withResolvers<void>();
  const names = Array.from({ length: 64 }, (_, each) => `greedy/${each}`);
  const flood = names.map((name) => objects.put(name, held(), 100_000));
  await begun.promise;
  // What is under way of the greedy one keeps the modest one neither from its objects nor from storing another.
  await objects.put('modest/1', pieces(randomBytes(4_096)), 4_096);
  stored.resolve();
  await Promise.all(flood);
  expect(await kept(objects, ['modest/0', 'modest/1'])).toHaveLength(2);
  expect((await kept(objects, names)).length).toBeGreaterThan(10);
});

test('an object that does not fit in its fair share is refused, and costs a smaller holder nothing', async () => {
  const objects = await createFairObjectBucket(broker, 'test_refused', keeping, 0);
  const held = [...(await fill(objects, 'a', 3)), ...(await fill(objects, 'b', 3)), ...(await fill(objects, 'c', 3))];
  const large = objects.put('d/0', pieces(randomBytes(900_000)), 900_000);
  await expect(large).rejects.toMatchObject({ reason: 'STORE_FULL' });
  expect(await kept(objects, held)).toEqual(held);
});

test('an upload whose caller is gone ends, and one that waits for room too', async () => {
  const objects = await createFairObjectBucket(broker, 'test_gone', keeping);
  const caller = new AbortController();
  const begun = Promise.withResolvers<void>();
  let open = true;
  async function* endless(): AsyncGenerator<Uint8Array, void> {
    try {
      for (;;) {
        yield randomBytes(1_000);
        begun.resolve();
      }
    } finally {
      open = false;
    }
  }
  const gone = new Error('gone');
  const puts = ['p/0', 'p/1'].map((name) => objects.put(name, endless(), 2 ** 20, caller.signal));
  const ends = Promise.allSettled(puts);
  await begun.promise;
  caller.abort(gone);
  expect(await ends).toEqual(puts.map(() => ({ status: 'rejected', reason: gone })));
  expect(open).toBe(false);
  expect(await kept(objects, ['p/0', 'p/1'])).toEqual([]);
});

test('64 uploads of 200 MB at once free nothing of a project that holds 4 KB', () => {
  const gibibyte = 2 ** 30;
  const megabytes = 200_000_000;
  const object = (name: string, bytes: number, storedMs: number) => ({ name, bytes, storedMs });
  const modest = object('modest/0', 4_096, 0);
  const stored = Array.from({ length: 10 }, (_, each) => object(`greedy/${each}`, megabytes, each + 1));
  const plan = (objects: (typeof modest)[], arriving: number, name: string, bytes: number) => {
    const underWay = new Map([['greedy', arriving]]);
    const held = objects.reduce((sum, each) => sum + each.bytes, 0);
    return makingRoom(
      { objects, neededBytes: held + arriving + bytes, underWay, maxBytes: 4 * gibibyte },
      { name, bytes },
    );
  };
  expect(plan([modest], 63 * megabytes, 'greedy/new', megabytes)).toBeUndefined();
  expect(plan([modest, ...stored], 63 * megabytes, 'greedy/new', megabytes)).toBeUndefined();
  expect(plan([modest], 18 * megabytes, 'modest/1', 4_096)).toEqual([]);
  // No more than makes the newcomer fit, up to the room that is made ahead.
  expect(plan([modest, ...stored], 8 * megabytes, 'greedy/new', megabytes)).toEqual(stored.slice(0, 3));
});

test('a submission that would push out all others is refused, and one of another project is not found', async () => {
  const submissions = await createNatsSubmissionObjects(broker, keeping);
  const large = submissions.put('p', 'sha256:1', pieces(randomBytes(10)), 2 ** 20 + 1);
  await expect(large).rejects.toMatchObject({ reason: 'LIMIT_EXCEEDED', metadata: { limit: String(2 ** 20) } });
  await submissions.put('p', 'sha256:1', pieces(randomBytes(10)), 10);
  const isKept = createNatsSubmissionLookup(broker);
  expect([await isKept('p', 'sha256:1'), await isKept('q', 'sha256:1')]).toEqual([true, false]);
});

test('who holds most loses the oldest, down to what the next one holds', () => {
  const object = (name: string, storedMs: number, bytes: number) => ({ name, storedMs, bytes });
  const held = [object('a/3', 3, 40_000), object('a/1', 1, 40_000), object('b/0', 0, 50_000), object('a/2', 2, 40_000)];
  const names = (needed: number, coming = { name: 'a/4', bytes: 0 }) =>
    fairLosses(held, coming, needed).map(({ name }) => name);
  expect(names(0)).toEqual([]);
  expect(names(1)).toEqual(['a/1']);
  expect(names(100_000)).toEqual(['a/1', 'a/2', 'b/0']);
  expect(names(1, { name: 'b/4', bytes: 80_000 })).toEqual(['b/0']);
  expect(names(1_000_000)).toHaveLength(4);
});
