import { isDeepStrictEqual } from 'node:util';
import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { VerificationRecordSchema } from '../../gen/assay/internal/v1/records_pb.js';
import { VerificationState } from '../../gen/assay/v1/verification_pb.js';
import { createNatsVerificationStore } from '../../services/shared/store/nats-verification-store.ts';
import type { VerificationStore } from '../../services/shared/store/verification-store.ts';
import { adminKey, clientsOf, type RunningService, runService } from './running-service.ts';

const maxBytes = 2 ** 20;
let service: RunningService;
let store: VerificationStore;

beforeAll(async () => {
  const env = { ASSAY_VERIFICATION_STORE_BYTES: String(maxBytes), ASSAY_JOB_SWEEP_SECONDS: '1' };
  service = await runService({ env });
  store = createNatsVerificationStore({ broker: service.broker, onEventLost() {} });
});
afterAll(() => service.stop());

const record = (verificationId: string, state: VerificationState, project = 'default') =>
  create(VerificationRecordSchema, {
    project,
    verification: { verificationId, state, message: 'x'.repeat(8_192) },
  });
const stored = async () => (await service.broker.bucket('assay_verifications').status()).streamInfo.state;

describe('the store of verifications', () => {
  test('that is full loses the oldest that have ended of the project that has most, and takes others again', async () => {
    await store.create(record('live', VerificationState.PENDING));
    for (const id of ['m0', 'm1', 'm2']) await store.create(record(id, VerificationState.COMPLETED, 'modest'));
    let asked = 0;
    const fill = async (): Promise<string> => {
      const id = `done-${asked++}`;
      await store.create(record(id, VerificationState.COMPLETED));
      return id;
    };
    // All at once: a sweep may make room every second.
    const burst = await Promise.allSettled(Array.from({ length: (2 * maxBytes) / 8_192 }, fill));
    const refused = burst.filter((each) => each.status === 'rejected');
    expect(refused[0]?.reason).toMatchObject({ reason: 'STORE_UNAVAILABLE' });
    // Room is there again once the sweep has made it.
    let last: string | undefined;
    await expect.poll(async () => (last = await fill().catch(() => undefined))).toBeDefined();
    await expect.poll(async () => (await stored()).bytes).toBeLessThan(maxBytes * (7 / 8));
    expect(await store.get('default', 'live')).toBeDefined();
    expect(await store.get('default', 'done-0')).toBeUndefined();
    expect(await store.get('default', last ?? '')).toBeDefined();
    for (const id of ['m0', 'm1', 'm2']) expect(await store.get('modest', id)).toBeDefined();
    const { verifications } = clientsOf(service.transport(adminKey));
    const listed = async () => {
      const page = await verifications.listVerifications({ pageSize: 1_000 });
      return page.verifications.map(({ verificationId }) => verificationId).toSorted();
    };
    const kept = async () => {
      const own = (await store.all()).filter(({ project }) => project === 'default');
      return own.map(({ verification }) => verification?.verificationId).toSorted();
    };
    // Both anew each time: a sweep may be at it.
    await expect.poll(async () => isDeepStrictEqual(await listed(), await kept())).toBe(true);
    // What told others of the removals goes too.
    await expect.poll(async () => (await stored()).messages - (await kept()).length).toBe(3);
  });
});
