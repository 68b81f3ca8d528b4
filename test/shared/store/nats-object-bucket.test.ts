import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { type Broker, connectBroker } from '../../../services/shared/store/broker.ts';
import { createNatsObjectBucket, type ObjectReader } from '../../../services/shared/store/nats-object-bucket.ts';
import { type NatsProcess, startNats } from './nats-process.ts';

let nats: NatsProcess;
let broker: Broker;
const keeping = { keepMs: 3_600_000, maxBytes: 2 ** 20, replicas: 1 };
const object = (): Buffer => randomBytes(200_000);

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

/** The broker is started again, and the connections that were lost are back. */
async function backAgain(): Promise<void> {
  await expect.poll(() => broker.connected || broker.bulk.connected).toBe(false);
  await nats.start();
  await expect.poll(() => broker.connected && broker.bulk.connected).toBe(true);
}

async function read(objects: ObjectReader, name: string): Promise<Buffer | undefined> {
  const found = await objects.get(name);
  return found && Buffer.concat(await Array.fromAsync(found));
}

/** Not by toEqual, which takes seconds for so many bytes. */
async function holds(objects: ObjectReader, name: string, bytes: Buffer | undefined): Promise<boolean> {
  return bytes !== undefined && (await read(objects, name))?.equals(bytes) === true;
}

test('a full bucket refuses what is new', async () => {
  const objects = await createNatsObjectBucket(broker, 'test_refuses', keeping);
  const first = object();
  await objects.put('first', pieces(first));
  const rest = async () => {
    for (let count = 0; count < 10; count += 1) await objects.put(`${count}`, pieces(object()));
  };
  await expect(rest()).rejects.toMatchObject({ reason: 'STORE_UNAVAILABLE' });
  expect(await holds(objects, 'first', first)).toBe(true);
});

test.each([
  ['is refused', async () => {}, async () => {}],
  ['loses its broker', async () => nats.kill(), async () => backAgain()],
])('an object that %s lets go of what it is read from', async (_, interrupt, mend) => {
  const objects = await createNatsObjectBucket(broker, 'test_lets_go', keeping);
  let open = true;
  async function* endless(): AsyncGenerator<Uint8Array, void> {
    try {
      for (let count = 0; ; count += 1) {
        if (count === 2) await interrupt();
        yield randomBytes(150_000);
      }
    } finally {
      open = false;
    }
  }
  await expect(objects.put('endless', endless())).rejects.toMatchObject({ reason: 'STORE_UNAVAILABLE' });
  await vi.waitFor(() => expect(open).toBe(false), 120_000);
  await mend();
  expect(await objects.storedMs('endless')).toBeUndefined();
});

test('nothing of an object passes the connection of records and acknowledgements', async () => {
  const objects = await createNatsObjectBucket(broker, 'test_bulk', keeping);
  const bytes = object();
  const before = broker.connection.stats();
  await objects.put('large', pieces(bytes));
  expect(await holds(objects, 'large', bytes)).toBe(true);
  const { outBytes, inBytes } = broker.connection.stats();
  expect([outBytes - before.outBytes, inBytes - before.inBytes]).toEqual([0, 0]);
});

test('closing the broker closes the connection of objects too', async () => {
  const own = { url: nats.url, user: nats.user, password: nats.password, name: 'closing', replicas: 1 };
  const closing = await connectBroker(own);
  await closing.close();
  await closing.closed;
  await expect.poll(() => closing.connected || closing.bulk.connected).toBe(false);
});

test('an empty object is one', async () => {
  const objects = await createNatsObjectBucket(broker, 'test_empty', keeping);
  await objects.put('empty', pieces(new Uint8Array()));
  expect(await read(objects, 'empty')).toEqual(Buffer.alloc(0));
});

test('what a killed upload has left goes, and no object and no upload that goes on', async () => {
  const objects = await createNatsObjectBucket(broker, 'test_fragments', keeping);
  const whole = object();
  await objects.put('whole', pieces(whole));
  const before = await objects.heldBytes();
  await broker.js.publish('$O.test_fragments.C.killed', randomBytes(50_000));
  await objects.removeFragments(3_600_000);
  expect(await objects.heldBytes()).toBeGreaterThan(before);
  await objects.removeFragments(-1);
  expect(await objects.heldBytes()).toBe(before);
  expect(await holds(objects, 'whole', whole)).toBe(true);
});
