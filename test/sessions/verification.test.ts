import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { VerificationRecordSchema } from '../../gen/assay/internal/v1/records_pb.js';
import { Scope } from '../../gen/assay/v1/key_pb.js';
import { SessionSampleSchema } from '../../gen/assay/v1/session_pb.js';
import { Assurance } from '../../gen/assay/v1/types_pb.js';
import {
  Verdict,
  type Verification,
  VerificationResultSchema,
  VerificationState,
} from '../../gen/assay/v1/verification_pb.js';
import { DomainError } from '../../services/shared/domain-error.ts';
import { readSample } from '../../services/shared/sample/read-sample.ts';
import { createNatsJobQueue } from '../../services/shared/store/nats-job-queue.ts';
import { createNatsResultStore } from '../../services/shared/store/nats-result-store.ts';
import { createNatsSampleReader } from '../../services/shared/store/nats-sample-store.ts';
import { createNatsVerificationStore } from '../../services/shared/store/nats-verification-store.ts';
import { createRecordBucket } from '../../services/shared/store/record-bucket.ts';
import { createNatsSubmissionObjects } from '../../services/shared/store/submission-objects.ts';
import type { VerificationStore } from '../../services/shared/store/verification-store.ts';
import { reasonOf } from './reason.ts';
import { adminKey, clientsOf, type RunningService, runService } from './running-service.ts';
import type { WorkerDouble } from './worker-double.ts';

let service: RunningService;
let worker: WorkerDouble;
let api: ReturnType<typeof clientsOf>;
let store: VerificationStore;
let sessionId: string;
let sealed = 0;
let submission = '';
let content = '';

const inPlaceId = 'ver_01h455vb4pex5vsknk084sn02t';
const joblessId = 'ver_01h455vb4pex5vsknk084sn02q';
const ended = ['v', 'w', 'x'].map((last) => `ver_01h455vb4pex5vsknk084sn02${last}`);
const digest = (letter: string): string => `sha256:${letter.repeat(64)}`;
const jobs = () => createNatsJobQueue(service.broker);

beforeAll(async () => {
  service = await runService({
    env: { ASSAY_JOB_SWEEP_SECONDS: '1', ASSAY_LIMIT_VERIFICATIONS_PER_PROJECT: '6' },
  });
  worker = await service.addWorker({ heartbeatMs: 1_000 });
  api = clientsOf(service.transport(adminKey));
  store = createNatsVerificationStore({ broker: service.broker, onEventLost() {} });
  sessionId = (await api.sessions.createSession({})).session?.sessionId ?? '';
  await service.sessions.update('default', sessionId, (record) => {
    if (record.session === undefined) return undefined;
    const name = { datasetId: 'd', sampleId: 's', version: '1' };
    const sample = create(SessionSampleSchema, { name, contentDigest: digest('c') });
    return { ...record, session: { ...record.session, sample } };
  });
  await recordForgotten();
});
afterAll(() => service.stop());
beforeEach(() => {
  submission = digest((sealed % 16).toString(16));
  content = digest('c');
  worker.calls.sealSubmission = () => {
    sealed += 1;
    const digests = { submission, sample: content, verification: digest('d'), image: digest('e') };
    return { digests, submission: { sizeBytes: 3n, fileCount: 1 }, assurance: Assurance.ISOLATED, violation: '' };
  };
});

/** Records that only the service itself can see to, some seconds after they were written. */
async function recordForgotten(): Promise<void> {
  const state = VerificationState.PENDING;
  const inPlace = { verificationId: inPlaceId, state, sessionId: 'ses_that_is_gone' };
  const claimed = { inPlaceWorkerId: 'wrk-gone', claim: 'of the dead' };
  const records = [{ verification: inPlace, ...claimed }, { verification: { verificationId: joblessId, state } }];
  for (const each of records) await store.create(create(VerificationRecordSchema, { project: 'other', ...each }));
  const bucket = createRecordBucket(service.broker, 'assay_verifications', VerificationRecordSchema);
  for (const [index, verificationId] of ended.entries()) {
    const verification = { verificationId, state: VerificationState.COMPLETED };
    const claim = index === 1 ? 'of a worker' : '';
    const record = create(VerificationRecordSchema, { project: 'other', verification, claim });
    // But for the first one nothing is published: its writer died just then, or the broker.
    if (index === 0) await store.create(record);
    else await bucket.compareAndSet(`other.${verificationId}`, record, 0);
  }
}

async function start(more: { force?: boolean; requestId?: string } = {}): Promise<Verification> {
  const { verification } = await api.verifications.startVerification({ sessionId, ...more });
  if (verification === undefined) throw new Error('no verification');
  return verification;
}

/** What a worker does at the end. */
async function end({ verificationId }: Verification, verdict = Verdict.PASSED): Promise<void> {
  const results = await createNatsResultStore(service.broker, { keepMs: 3_600_000, maxBytes: 2 ** 24, replicas: 1 });
  const result = create(VerificationResultSchema, { verdict, trainable: true });
  const object = `default/${verificationId}`;
  await results.put(object, { ...result, passedTests: ['a hidden test'] });
  await store.change('default', verificationId, {
    ...{ type: 'claimed', claim: 'c', over: '', workerId: 'w', sequence: 1n, atMs: 1 },
  });
  await store.change('default', verificationId, { type: 'ended', claim: 'c', error: false, result, object, atMs: 2 });
  // Somebody is told of it: from then on the service knows the verdict.
  await api.verifications.getVerification({ verificationId });
}

describe('starting', () => {
  test('seals, records and queues, and the same request id does it once', async () => {
    const before = sealed;
    const [first, second] = await Promise.all([start({ requestId: 'r1' }), start({ requestId: 'r1' })]);
    expect(second.verificationId).toBe(first.verificationId);
    expect(first).toMatchObject({
      state: VerificationState.PENDING,
      sample: { datasetId: 'd', sampleId: 's', version: '1' },
    });
    expect(await jobs().holds('default', first.verificationId)).toBe(true);
    const third = await start({ requestId: 'r1' });
    expect(third.verificationId).toBe(first.verificationId);
    expect(sealed - before).toBeLessThanOrEqual(2);
    const other = await api.verifications
      .startVerification({ sessionId, requestId: 'r1', force: true })
      .catch((e) => e);
    expect(reasonOf(other)).toBe('REQUEST_ID_REUSED');
    await api.verifications.cancelVerification({ verificationId: first.verificationId });
  });

  test('gives the known verdict on the same submission, unless it is told to grade', async () => {
    submission = digest('9');
    const first = await start();
    await end(first, Verdict.FAILED);
    const reused = await start();
    expect(reused).toMatchObject({ state: VerificationState.COMPLETED, reusedFrom: first.verificationId });
    expect(reused.result).toMatchObject({ verdict: Verdict.FAILED, reused: true, passedTests: ['a hidden test'] });
    expect(await jobs().holds('default', reused.verificationId)).toBe(false);
    const forced = await start({ force: true });
    expect(forced.state).toBe(VerificationState.PENDING);
    await api.verifications.cancelVerification({ verificationId: forced.verificationId });
  });

  test.each([Verdict.OUT_OF_MEMORY, Verdict.TIMED_OUT, Verdict.INVALID_SUBMISSION])(
    'grades again what came to verdict %s, which the limits of the server may have decided',
    async (verdict) => {
      submission = digest(String(verdict));
      await end(await start(), verdict);
      const again = await start();
      expect(again).toMatchObject({ state: VerificationState.PENDING, reusedFrom: '' });
      await api.verifications.cancelVerification({ verificationId: again.verificationId });
    },
  );

  test('grades again when the sample gives it more memory, though tests and image are the same', async () => {
    submission = digest('8');
    await end(await start(), Verdict.OUT_OF_MEMORY);
    content = digest('f');
    const graded = await start();
    expect(graded).toMatchObject({ state: VerificationState.PENDING, reusedFrom: '' });
    await api.verifications.cancelVerification({ verificationId: graded.verificationId });
  });

  test('has the verdict at once where there is nothing to grade, and says what the worker said where it refuses', async () => {
    const digests = { sample: digest('c'), verification: digest('d'), image: digest('e') };
    worker.calls.sealSubmission = () => ({ digests, violation: 'SPECIAL_FILE: pipe: a FIFO' });
    const invalid = await start();
    expect(invalid).toMatchObject({ state: VerificationState.COMPLETED });
    expect(invalid.result).toMatchObject({ verdict: Verdict.INVALID_SUBMISSION, reason: 'SPECIAL_FILE: pipe: a FIFO' });
    worker.calls.sealSubmission = () => {
      throw new DomainError('ASSURANCE_NOT_REACHED', 'it reaches IN_PROCESS');
    };
    expect(reasonOf(await start().catch((e) => e))).toBe('ASSURANCE_NOT_REACHED');
    const bare = (await api.sessions.createSession({})).session?.sessionId ?? '';
    const error = await api.verifications.startVerification({ sessionId: bare }).catch((e) => e);
    expect(reasonOf(error)).toBe('NO_SAMPLE');
  });

  test('is refused over the quota', async () => {
    const started = await Promise.all(Array.from({ length: 6 }, () => start({ force: true })));
    expect(reasonOf(await start({ force: true }).catch((e) => e))).toBe('VERIFICATION_QUOTA');
    for (const { verificationId } of started) await api.verifications.cancelVerification({ verificationId });
    const again = await start({ force: true });
    await api.verifications.cancelVerification({ verificationId: again.verificationId });
  });
});

describe('tests that run in the session itself', () => {
  const startInPlace = async (): Promise<Verification> => {
    const digests = { submission, sample: digest('c'), verification: digest('d'), image: digest('e') };
    worker.calls.sealSubmission = () => ({ digests, assurance: Assurance.SHARED, inPlace: true });
    return start();
  };

  test('are for the worker that has it, and their verdict is neither reused nor regraded', async () => {
    const first = await startInPlace();
    expect(await jobs().holds('default', first.verificationId, worker.workerId)).toBe(true);
    expect(await jobs().holds('default', first.verificationId)).toBe(false);
    await end(first);
    const second = await startInPlace();
    expect(second).toMatchObject({ state: VerificationState.PENDING, reusedFrom: '' });
    const refused = await api.verifications.regradeSubmission({ verificationId: first.verificationId }).catch((e) => e);
    expect(reasonOf(refused)).toBe('GRADED_IN_PLACE');
    await api.verifications.cancelVerification({ verificationId: second.verificationId });
  });
});

test('a watch tells every state, and ends with the whole result', async () => {
  const started = await start({ force: true });
  const { verificationId } = started;
  const told: VerificationState[] = [];
  let last: Verification | undefined;
  for await (const { verification } of api.verifications.watchVerification({ verificationId })) {
    if (told.length === 0) void end(started);
    told.push(verification?.state ?? 0);
    last = verification;
  }
  expect(told[0]).toBe(VerificationState.PENDING);
  expect(told.at(-1)).toBe(VerificationState.COMPLETED);
  expect(last?.result?.passedTests).toEqual(['a hidden test']);
  const agent = clientsOf(service.transport((await service.makeKey(Scope.AGENT)).secret));
  const { verification } = await agent.verifications.getVerification({ verificationId });
  expect(verification?.result).toMatchObject({ verdict: Verdict.PASSED, passedTests: [] });
});

test('a submission is graded again with the sample as it was, which workers find again', async () => {
  const folder = new URL('../../datasets/examples/hello-fix', import.meta.url).pathname;
  const { digests } = await readSample(folder);
  const objects = await createNatsSubmissionObjects(service.broker, {
    keepMs: 3_600_000,
    maxBytes: 2 ** 24,
    replicas: 1,
  });
  async function* archive() {
    yield Buffer.from('a submission');
  }
  await objects.put('default', digest('5'), archive(), 12);
  const earlier = {
    verificationId: 'ver_01h455vb4pex5vsknk084sn02s',
    state: VerificationState.COMPLETED,
    sessionId,
    sample: { datasetId: 'examples', sampleId: 'hello-fix', version: '1.0.0' },
    digests: { submission: digest('5'), sample: digests.content, image: digests.image },
  };
  await store.create(create(VerificationRecordSchema, { project: 'default', verification: earlier }));
  const samples = createNatsSampleReader(service.broker);
  expect(await samples.get(digests.content)).toBeUndefined();
  const { verificationId } = earlier;
  const { verification } = await api.verifications.regradeSubmission({ verificationId });
  expect(verification).toMatchObject({
    state: VerificationState.PENDING,
    regradeOf: verificationId,
    sample: { sampleId: 'hello-fix' },
  });
  expect(await samples.get(digests.content)).toBeDefined();
  expect(await jobs().holds('default', verification?.verificationId ?? '')).toBe(true);
  await api.verifications.cancelVerification({ verificationId: verification?.verificationId ?? '' });
});

test('lists go newest first, page by page, and by what is asked for', async () => {
  const all = await api.verifications.listVerifications({ sessionId });
  expect(all.verifications.length).toBeGreaterThan(3);
  const first = await api.verifications.listVerifications({ sessionId, pageSize: 2 });
  const second = await api.verifications.listVerifications({ sessionId, pageSize: 2, pageToken: first.nextPageToken });
  const ids = (page: { verifications: Verification[] }) =>
    page.verifications.map(({ verificationId }) => verificationId);
  expect([...ids(first), ...ids(second)]).toEqual(ids(all).slice(0, 4));
  const wrong = { sample: { datasetId: 'd' }, pageToken: first.nextPageToken };
  expect(reasonOf(await api.verifications.listVerifications(wrong).catch((e) => e))).toBe('INVALID_PAGE_TOKEN');
  const completed = await api.verifications.listVerifications({
    states: [VerificationState.COMPLETED],
    sample: { sampleId: 's', version: '1' },
  });
  expect(completed.verifications.length).toBeGreaterThan(0);
  expect(new Set(completed.verifications.map(({ state }) => state))).toEqual(new Set([VerificationState.COMPLETED]));
  expect((await api.verifications.listVerifications({ sample: { datasetId: 'nothing' } })).verifications).toEqual([]);
  expect((await api.verifications.listVerifications({ sample: { version: '2' } })).verifications).toEqual([]);
});

test.each([
  ['a wrong id', () => api.verifications.getVerification({ verificationId: 'ver_1' }), 'INVALID_FIELD'],
  [
    'an unknown level',
    () => api.verifications.startVerification({ sessionId, requiredAssurance: 77 as never }),
    'INVALID_FIELD',
  ],
  ['an unknown state', () => api.verifications.listVerifications({ states: [99 as never] }), 'INVALID_FIELD'],
  ['a page below zero', () => api.verifications.listVerifications({ pageSize: -1 }), 'INVALID_FIELD'],
  [
    'a regrading of nothing',
    () => api.verifications.regradeSubmission({ verificationId: 'ver_01h455vb4pex5vsknk084sn02r' }),
    'VERIFICATION_NOT_FOUND',
  ],
])('%s is refused', async (_, call, reason) => {
  expect(reasonOf(await call().catch((e: unknown) => e))).toBe(reason);
});

// Last, since by now most of the seconds are over that the service leaves a record alone.
test('a record without a job gets one, whoever made it', async () => {
  await expect.poll(() => jobs().holds('other', joblessId)).toBe(true);
});

test('tests that run in the session itself end in an error of ours where the session has ended, though no worker says so', async () => {
  const found = async () => (await store.get('other', inPlaceId))?.value.verification;
  const result = { verdict: Verdict.INFRA_ERROR, trainable: false };
  await expect.poll(found).toMatchObject({ state: VerificationState.ERROR, result });
});

test('an end that nobody was told of is told, once, and those that workers wrote are left to their jobs', async () => {
  const { streams } = await service.broker.js.jetstreamManager(false);
  const times = async () => {
    const { state } = await streams.info('ASSAY_EVENTS', { subjects_filter: 'assay.events.other.>' });
    return ended.map((id) => state.subjects?.[`assay.events.other.verification.${id}`]);
  };
  await expect.poll(times, { timeout: 120_000 }).toEqual([1, undefined, 1]);
});
