import { createHash, randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Broker, connectBroker } from '../../../services/shared/store/broker.ts';
import {
  createNatsTranscriptReader,
  createNatsTranscriptStore,
} from '../../../services/shared/store/nats-transcript-store.ts';
import type { TranscriptReader } from '../../../services/shared/store/transcript-store.ts';
import { type NatsProcess, startNats } from './nats-process.ts';

const mebibyte = 1_048_576;
let nats: NatsProcess;
let broker: Broker;
beforeAll(async () => {
  nats = await startNats();
  broker = await connectBroker({ ...nats, url: nats.url, name: 'test', replicas: 1 });
});
afterAll(async () => {
  await broker.close();
  await nats.stop();
});

const keeping = { keepMs: 60_000, maxBytes: 16 * mebibyte, replicas: 1 };

async function* pieces(data: Buffer, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < data.length; at += size) yield data.subarray(at, at + size);
}

async function readBack(reader: TranscriptReader, sessionId: string): Promise<Buffer | undefined> {
  const found = await reader.get('p', sessionId);
  return found === undefined ? undefined : Buffer.concat(await Array.fromAsync(found));
}

const sha256 = (data: Uint8Array) => createHash('sha256').update(data).digest('hex');

describe('transcripts', () => {
  test('are not there before any worker made their store', async () => {
    expect(await createNatsTranscriptReader(broker).get('p', 'none')).toBeUndefined();
  });

  test.each([0, 1, 1_000, 5 * mebibyte + 17])('of %i bytes come back as they were, beside others', async (size) => {
    const store = await createNatsTranscriptStore(broker, keeping);
    const data = randomBytes(size);
    await Promise.all([
      store.put('p', `s${size}`, pieces(data, 77_777), size),
      store.put('p', 'beside', pieces(randomBytes(300_000), 10_000), 300_000),
    ]);
    const found = await readBack(createNatsTranscriptReader(broker), `s${size}`);
    expect(sha256(found ?? Buffer.from('none'))).toBe(sha256(data));
    expect(await store.get('another', `s${size}`)).toBeUndefined();
  });

  test('are replaced as a whole', async () => {
    const store = await createNatsTranscriptStore(broker, keeping);
    await store.put('p', 'twice', pieces(Buffer.from('first and longer'), 3), 16);
    await store.put('p', 'twice', pieces(Buffer.from('second'), 3), 6);
    expect(String(await readBack(store, 'twice'))).toBe('second');
  });

  test('that cannot be written in full are not there at all', async () => {
    const store = await createNatsTranscriptStore(broker, keeping);
    const broken = async function* () {
      yield randomBytes(500_000);
      throw new Error('the disk is gone');
    };
    await expect(store.put('p', 'broken', broken(), 500_000)).rejects.toThrow('the disk is gone');
    expect(await store.get('p', 'broken')).toBeUndefined();
    const large = store.put('p', 'large', pieces(Buffer.alloc(9 * mebibyte), mebibyte), 1);
    await expect(large).rejects.toMatchObject({
      reason: 'LIMIT_EXCEEDED',
      message: expect.stringContaining(`more than ${8 * mebibyte} bytes`),
    });
    await store.put('p', 'small', pieces(Buffer.from('fits'), 3), 4);
    expect(String(await readBack(store, 'small'))).toBe('fits');
  });

  test('of a project that ends many sessions push out none of another', async () => {
    const store = await createNatsTranscriptStore(broker, keeping);
    const put = (project: string, sessionId: string) =>
      store.put(project, sessionId, pieces(randomBytes(mebibyte), 100_000), mebibyte);
    await put('quiet', 'one');
    for (let session = 0; session < 24; session += 1) await put('busy', `s${session}`);
    await put('late', 'one');
    const found = async (project: string, sessionId: string) => (await store.get(project, sessionId)) !== undefined;
    expect([await found('quiet', 'one'), await found('late', 'one')]).toEqual([true, true]);
    expect([await found('busy', 's0'), await found('busy', 's23')]).toEqual([false, true]);
  });

  test('are gone when their time is up, which the next start may change', async () => {
    const store = await createNatsTranscriptStore(broker, { ...keeping, keepMs: 1_000 });
    await store.put('p', 'brief', pieces(Buffer.from('brief'), 3), 5);
    await expect.poll(() => store.get('p', 'brief')).toBeUndefined();
  });

  test('cannot be stored or read while the broker is away, and can afterwards', async () => {
    const store = await createNatsTranscriptStore(broker, keeping);
    await store.put('p', 'kept', pieces(Buffer.from('kept'), 3), 4);
    await nats.kill();
    await expect(store.put('p', 'away', pieces(Buffer.from('x'), 1), 1)).rejects.toMatchObject({
      reason: 'STORE_UNAVAILABLE',
    });
    await expect.poll(() => broker.connected).toBe(false);
    await nats.start();
    await expect.poll(() => broker.connected).toBe(true);
    expect(String(await readBack(store, 'kept'))).toBe('kept');
  });
});
