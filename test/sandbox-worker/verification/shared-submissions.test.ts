import { createHash, randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createSharedSubmissions } from '../../../services/sandbox-worker/verification/shared-submissions.ts';
import { type Broker, connectBroker } from '../../../services/shared/store/broker.ts';
import {
  createNatsSubmissionObjects,
  type SubmissionObjects,
} from '../../../services/shared/store/submission-objects.ts';
import { runDirectory } from '../../run.ts';
import { type NatsProcess, startNats } from '../../shared/store/nats-process.ts';

let nats: NatsProcess;
let broker: Broker;
let objects: SubmissionObjects;
let directory: string;

beforeAll(async () => {
  nats = await startNats();
  broker = await connectBroker({ url: nats.url, user: nats.user, password: nats.password, name: 'test', replicas: 1 });
  objects = await createNatsSubmissionObjects(broker, { keepMs: 3_600_000, maxBytes: 2 ** 26, replicas: 1 });
  directory = mkdtempSync(join(runDirectory(), 'submissions-'));
});
afterAll(async () => {
  rmSync(directory, { recursive: true, force: true });
  await broker.close();
  await nats.stop();
});

/** The submissions of a worker of its own. */
const worker = (name: string, maxBytes = 2 ** 26) =>
  createSharedSubmissions({ objects, directory: join(directory, name), maxBytes })('p');

function staged(bytes = randomBytes(300_000)): { file: string; digest: string; bytes: Buffer } {
  const file = join(directory, randomBytes(8).toString('hex'));
  writeFileSync(file, bytes);
  return { file, bytes, digest: `sha256:${createHash('sha256').update(bytes).digest('hex')}` };
}

test('what one worker seals another finds, and the staged file is gone', async () => {
  const { file, bytes, digest } = staged();
  await worker('a').put(digest, file);
  expect(existsSync(file)).toBe(false);
  const other = worker('b');
  const copies = await Promise.all([other.fetch(digest), other.fetch(digest), other.fetch(digest)]);
  for (const copy of copies) {
    expect(readFileSync(copy?.file ?? '').equals(bytes)).toBe(true);
    await copy?.release();
  }
  expect(readdirSync(join(directory, 'b'))).toHaveLength(1);
});

test('what nobody sealed is not found, and what is another than it says is not believed', async () => {
  const { digest } = staged();
  expect(await worker('a').fetch(digest)).toBeUndefined();
  async function* wrong() {
    yield Buffer.from('something else');
  }
  await objects.put('p', digest, wrong(), 14);
  await expect(worker('c').fetch(digest)).rejects.toMatchObject({ reason: 'STORE_UNAVAILABLE' });
  expect(readdirSync(join(directory, 'c'))).toEqual([]);
});

test('copies are bounded, those in use stay, and one that went is fetched again', async () => {
  const small = worker('d', 700_000);
  const first = staged();
  await small.put(first.digest, first.file);
  const held = await small.fetch(first.digest);
  for (let count = 0; count < 4; count += 1) {
    const { digest, file } = staged();
    await small.put(digest, file);
  }
  expect(readdirSync(join(directory, 'd')).length).toBeLessThanOrEqual(3);
  expect(readFileSync(held?.file ?? '').equals(first.bytes)).toBe(true);
  await held?.release();
  for (let count = 0; count < 3; count += 1) {
    const { digest, file } = staged();
    await small.put(digest, file);
  }
  expect(existsSync(held?.file ?? '')).toBe(false);
  const again = await small.fetch(first.digest);
  expect(readFileSync(again?.file ?? '').equals(first.bytes)).toBe(true);
  await again?.release();
});

test('copies are bounded on a worker that only ever fetches', async () => {
  const digests: string[] = [];
  for (let count = 0; count < 4; count += 1) {
    const { digest, file } = staged();
    await worker('a').put(digest, file);
    digests.push(digest);
  }
  const other = worker('e', 700_000);
  for (const digest of digests) await (await other.fetch(digest))?.release();
  expect(readdirSync(join(directory, 'e'))).toHaveLength(2);
});

test('a digest that is none never becomes a path', async () => {
  await expect(worker('a').fetch('sha256:../../etc/passwd')).rejects.toThrow('is no digest');
});
