import { create, toBinary } from '@bufbuild/protobuf';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { VerificationJobSchema } from '../../../gen/assay/internal/v1/records_pb.js';
import { GradingPhase, ReportFormat, Verdict, VerificationState } from '../../../gen/assay/v1/verification_pb.js';
import type { GradingOrder } from '../../../services/sandbox-worker/grading/grader.ts';
import { SessionGone } from '../../../services/sandbox-worker/grading/in-place.ts';
import { DomainError } from '../../../services/shared/domain-error.ts';
import { type Broker, connectBroker } from '../../../services/shared/store/broker.ts';
import { createNatsJobQueue, createNatsJobSource } from '../../../services/shared/store/nats-job-queue.ts';
import { createNatsResultReader } from '../../../services/shared/store/nats-result-store.ts';
import { type NatsProcess, startNats } from '../../shared/store/nats-process.ts';
import {
  ended,
  endless,
  type GradingWorker,
  type GradingWorkerOptions,
  graded,
  queue,
  recordOf,
  startGradingWorker,
  storeOn,
} from './grading-worker.ts';

let nats: NatsProcess;
let broker: Broker;
let workers: GradingWorker[] = [];
let made = 0;
let id = '';

beforeAll(async () => {
  nats = await startNats();
  broker = await connectBroker({ url: nats.url, user: nats.user, password: nats.password, name: 'test', replicas: 1 });
});
afterAll(async () => {
  await broker.close();
  await nats.stop();
});
beforeEach(() => {
  made += 1;
  id = `ver_${made}`;
});
afterEach(async () => {
  await Promise.all(workers.map((worker) => worker.stop()));
  workers = [];
});

async function start(grade: GradingWorkerOptions['grade'], more: Partial<GradingWorkerOptions> = {}) {
  const worker = await startGradingWorker({ broker, grade, ...more });
  workers.push(worker);
  return worker;
}

/** A worker whose gradings begin, and end when they are let. */
async function startGated(more: Partial<GradingWorkerOptions>) {
  let begun = 0;
  const gate = Promise.withResolvers<void>();
  const grade: GradingWorkerOptions['grade'] = async (order) => {
    begun += 1;
    await Promise.race([gate.promise, endless(order)]);
    return graded();
  };
  await start(grade, more);
  return { begun: () => begun, end: gate.resolve };
}

const jobs = () => createNatsJobSource({ broker, ackWaitMs: 120_000, workerId: 'worker-a' });
const queueIsEmpty = () => expect.poll(() => jobs().projects()).toEqual([]);

describe('a job', () => {
  test('is graded, and ends in a record, a result and an empty queue', async () => {
    await start(async (order) => {
      order.phase('running');
      return graded('FAILED');
    });
    await queue(broker, 'p', id);
    const verification = await ended(broker, 'p', id);
    expect(verification).toMatchObject({ state: VerificationState.COMPLETED, attemptCount: 1, workerId: 'worker-a' });
    expect(verification.result).toMatchObject({ verdict: Verdict.FAILED, testCount: 1, tests: [], reason: 'said so' });
    const object = (await storeOn(broker).get('p', id))?.value.resultObject ?? '';
    const whole = await createNatsResultReader(broker).get(object);
    expect(whole).toMatchObject({ verdict: Verdict.FAILED, passedTests: ['one'], reportFormats: [ReportFormat.JUNIT] });
    expect(Buffer.from(whole?.stdout ?? []).toString()).toBe('out');
    await queueIsEmpty();
  });

  test('that comes ten times is graded once', async () => {
    const gradings = await startGated({ slots: 4 });
    await queue(broker, 'p', id);
    const job = toBinary(VerificationJobSchema, create(VerificationJobSchema, { project: 'p', verificationId: id }));
    for (let copy = 0; copy < 10; copy += 1)
      await broker.js.publish(`assay.jobs.p.${id}`, job, { msgID: `${id}.${copy}` });
    await expect.poll(gradings.begun).toBe(1);
    gradings.end();
    expect(await ended(broker, 'p', id)).toMatchObject({ state: VerificationState.COMPLETED, attemptCount: 1 });
    await queueIsEmpty();
    expect(gradings.begun()).toBe(1);
  });

  test('that comes again to a worker that is about to begin it is begun once', async () => {
    const store = storeOn(broker);
    const answer = Promise.withResolvers<void>();
    const slow = {
      ...store,
      async get(...given: Parameters<typeof store.get>) {
        await answer.promise;
        return store.get(...given);
      },
    };
    let begun = 0;
    const grade = async () => {
      begun += 1;
      return graded();
    };
    const worker = await start(grade, { store: slow, slots: 0 });
    await queue(broker, 'p', id);
    const delivery = await jobs().take('p');
    if (delivery === undefined) throw new Error('no job');
    // As it comes again to a process that was held up for longer than the queue waits.
    const handled = [worker.handle(delivery), worker.handle(delivery)];
    answer.resolve();
    await Promise.all(handled);
    expect(await ended(broker, 'p', id)).toMatchObject({ state: VerificationState.COMPLETED, attemptCount: 1 });
    expect(begun).toBe(1);
    await queueIsEmpty();
  });

  test('that cannot be read, or has no record, is dropped', async () => {
    await start(async () => graded());
    await broker.js.publish('assay.jobs.p.poison', Buffer.from([0xff, 0xff]));
    await createNatsJobQueue(broker).publish('p', 'ver_nobody');
    await queueIsEmpty();
  });

  test('is tried again where the infrastructure fails, and the verdict is the one of the attempt that worked', async () => {
    let times = 0;
    await start(async () => {
      times += 1;
      if (times === 1) throw new Error('the engine is away');
      return times === 2 ? graded('INFRA_ERROR') : graded();
    });
    await queue(broker, 'p', id);
    expect(await ended(broker, 'p', id)).toMatchObject({
      state: VerificationState.COMPLETED,
      attemptCount: 3,
      message: '',
    });
    await queueIsEmpty();
  });

  test('whose image has to wait for other builds of its project comes again, and that is no attempt', async () => {
    let times = 0;
    await start(
      async () => {
        times += 1;
        if (times <= 2) throw new DomainError('BUILD_QUOTA', 'the project has as many images as it may have');
        return graded();
      },
      { attempts: 1 },
    );
    await queue(broker, 'p', id);
    expect(await ended(broker, 'p', id)).toMatchObject({ state: VerificationState.COMPLETED, attemptCount: 1 });
    expect(times).toBe(3);
    await queueIsEmpty();
  });

  test('that fails lets go of the copy of its submission, which may be damaged', async () => {
    const removed: string[] = [];
    let times = 0;
    const submissions = {
      put: async () => {},
      remove: async (digest: string) => void removed.push(digest),
      fetch: async () => ({ file: '/nowhere', release: async () => {} }),
    };
    await start(
      async () => {
        times += 1;
        if (times === 1) throw new Error('the stored submission has another digest');
        return graded();
      },
      { submissions },
    );
    await queue(broker, 'p', id);
    const { digests } = await ended(broker, 'p', id);
    expect(removed).toEqual([digests?.submission]);
    await queueIsEmpty();
  });

  test.each([
    ['is given up', { attempts: 1 }, VerificationState.ERROR],
    ['is cancelled', {}, VerificationState.CANCELLED],
    ['is graded', {}, VerificationState.COMPLETED],
  ])('that %s comes again until its end was told', async (how, more, state) => {
    const store = storeOn(broker);
    const told: number[] = [];
    const deaf = {
      ...store,
      // The record is written, and the event is lost.
      async change(...given: Parameters<typeof store.change>) {
        const now = await store.change(...given);
        return now && { ...now, announced: false };
      },
      async announce(...given: Parameters<typeof store.announce>) {
        told.push(given[0].value.verification?.state ?? 0);
        return store.announce(...given);
      },
    };
    const grade = async (order: GradingOrder) => {
      if (how === 'is given up') throw new Error('the engine is away');
      return how === 'is graded' ? graded() : endless(order);
    };
    const worker = await start(grade, { ...more, store: deaf });
    await queue(broker, 'p', id);
    if (how === 'is cancelled') {
      await expect.poll(() => worker.running).toBe(1);
      await store.change('p', id, { type: 'cancelRequested', atMs: Date.now() });
    }
    await expect.poll(() => told).toEqual([state]);
    await queueIsEmpty();
  });

  test('that no attempt can finish ends in an error that is not held against the agent', async () => {
    await start(
      async () => {
        throw new Error('the engine is away');
      },
      { attempts: 2 },
    );
    await queue(broker, 'p', id);
    const verification = await ended(broker, 'p', id);
    expect(verification).toMatchObject({ state: VerificationState.ERROR, attemptCount: 2 });
    expect(verification.result).toMatchObject({ verdict: Verdict.INFRA_ERROR, trainable: false });
    expect(verification.result?.reason).toContain('the engine is away');
    await queueIsEmpty();
  });
});

describe('a worker', () => {
  test('stops a grading that is cancelled', async () => {
    await start(endless);
    await queue(broker, 'p', id);
    const store = storeOn(broker);
    const state = async () => (await store.get('p', id))?.value.verification?.state;
    await expect.poll(state).toBe(VerificationState.RUNNING);
    await store.change('p', id, { type: 'cancelRequested', atMs: Date.now() });
    expect((await ended(broker, 'p', id)).state).toBe(VerificationState.CANCELLED);
    await queueIsEmpty();
  });

  test.each([
    ['goes on where it is told of the claim before its own', false],
    ['stops where another has claimed what it is at', true],
  ])('%s', async (_, replaced) => {
    const store = storeOn(broker);
    const told = Promise.withResolvers<Parameters<typeof store.watch>[0]>();
    // As a list that was read for long tells it, or a watch that lags.
    const telling = {
      ...store,
      watch(listener: Awaited<typeof told.promise>) {
        told.resolve(listener);
        return () => {};
      },
    };
    const begun = Promise.withResolvers<AbortSignal>();
    const gate = Promise.withResolvers<void>();
    const grade = async (order: GradingOrder) => {
      begun.resolve(order.signal);
      await Promise.race([gate.promise, endless(order)]);
      return graded();
    };
    await start(grade, { store: telling });
    await queue(broker, 'p', id);
    const signal = await begun.promise;
    const over = (await store.get('p', id))?.value.claim ?? '';
    const earlier = recordOf('p', id);
    Object.assign(earlier, { claim: 'another' });
    Object.assign(earlier.verification ?? {}, { state: VerificationState.RUNNING, attemptCount: 1 });
    const claimed = { type: 'claimed', claim: 'another', over, workerId: 'w', sequence: 1n, atMs: 1 } as const;
    if (replaced) await store.change('p', id, claimed);
    (await told.promise)(earlier);
    if (replaced) await expect.poll(() => signal.aborted).toBe(true);
    else {
      expect(signal.aborted).toBe(false);
      gate.resolve();
      expect(await ended(broker, 'p', id)).toMatchObject({ state: VerificationState.COMPLETED, attemptCount: 1 });
      await queueIsEmpty();
    }
  });

  test('that dies leaves its job to the next, and what it says later counts for nothing', async () => {
    await queue(broker, 'dead', id);
    // Taken and claimed, and then nothing more: what a process that was killed leaves behind.
    const dead = await createNatsJobSource({ broker, ackWaitMs: 300, workerId: 'worker-a' }).take('dead');
    const claim = {
      type: 'claimed',
      claim: 'dead',
      over: '',
      workerId: 'dead',
      sequence: dead?.sequence ?? 0n,
      atMs: 1,
    } as const;
    await storeOn(broker).change('dead', id, claim);
    await start(async () => graded(), { workerId: 'worker-b', ackWaitMs: 300 });
    expect(await ended(broker, 'dead', id)).toMatchObject({ workerId: 'worker-b', attemptCount: 2 });
    const late = await storeOn(broker).change('dead', id, {
      type: 'phase',
      claim: 'dead',
      phase: GradingPhase.RUNNING,
      running: true,
    });
    expect(late?.changed).toBe(false);
    await queueIsEmpty();
  });

  test('keeps a job that takes longer than the queue waits', async () => {
    const gradings = await startGated({ ackWaitMs: 300 });
    await queue(broker, 'q', id);
    await new Promise((resolve) => setTimeout(resolve, 900));
    gradings.end();
    expect(await ended(broker, 'q', id)).toMatchObject({ attemptCount: 1 });
    expect(gradings.begun()).toBe(1);
  });

  test('gives back what it is at when it stops, and that is no attempt', async () => {
    const first = await start(endless, { workerId: 'worker-a' });
    await queue(broker, 'p', id);
    await expect.poll(() => first.running).toBe(1);
    await first.stop();
    expect((await storeOn(broker).get('p', id))?.value.verification?.state).toBe(VerificationState.PENDING);
    await start(async () => graded(), { workerId: 'worker-b' });
    expect(await ended(broker, 'p', id)).toMatchObject({ workerId: 'worker-b', attemptCount: 1 });
  });

  test('leaves a job alone that only another can do, without an attempt', async () => {
    const record = recordOf('p', id);
    record.inPlaceWorkerId = 'worker-b';
    await storeOn(broker).create(record);
    await createNatsJobQueue(broker).publish('p', id);
    const store = storeOn(broker);
    let looks = 0;
    const looking = {
      ...store,
      get(...given: Parameters<typeof store.get>) {
        looks += 1;
        return store.get(...given);
      },
    };
    const first = await start(endless, { workerId: 'worker-a', store: looking });
    // It has passed through its hands once it comes a second time.
    await expect.poll(() => looks).toBeGreaterThan(1);
    expect(first.running).toBe(0);
    await start(async () => graded(), { workerId: 'worker-b' });
    expect(await ended(broker, 'p', id)).toMatchObject({ workerId: 'worker-b', attemptCount: 1 });
  });

  test('gives up at once where the session is gone in which the tests were to run', async () => {
    await start(async () => {
      throw new SessionGone('session s ended');
    });
    await queue(broker, 'p', id);
    const verification = await ended(broker, 'p', id);
    expect(verification).toMatchObject({ state: VerificationState.ERROR, attemptCount: 1 });
    expect(verification.result).toMatchObject({
      verdict: Verdict.INFRA_ERROR,
      reason: 'session s ended',
      trainable: false,
    });
    await queueIsEmpty();
  });

  test.each([
    ['any worker', ''],
    ['sessions of this worker', 'worker-a'],
  ])('keeps a slot for others while one project has gradings without end, for %s', async (_, workerId) => {
    for (let job = 0; job < 4; job += 1) await queue(broker, 'greedy', `greedy-${id}-${job}`, workerId);
    const grade = (order: GradingOrder) =>
      order.verificationId.startsWith('greedy') ? endless(order) : Promise.resolve(graded());
    const worker = await start(grade, { slots: 3, sharePercent: 75 });
    await expect.poll(() => worker.running).toBe(2);
    await queue(broker, 'modest', id, workerId);
    expect(await ended(broker, 'modest', id)).toMatchObject({ attemptCount: 1 });
    await expect.poll(() => worker.running).toBe(2);
    const { streams } = await broker.js.jetstreamManager(false);
    await worker.stop();
    await streams.purge('ASSAY_JOBS');
  });

  test('takes from every project in turn', async () => {
    const order: string[] = [];
    const grade = async ({ verificationId }: GradingOrder) => {
      order.push(verificationId.split('-')[0] ?? '');
      return graded();
    };
    for (let job = 0; job < 12; job += 1) await queue(broker, 'many', `many-${job}`);
    for (let job = 0; job < 3; job += 1) await queue(broker, 'few', `few-${job}`);
    await start(grade, { slots: 1 });
    await ended(broker, 'few', 'few-2');
    expect(order.slice(0, 6).filter((project) => project === 'few').length).toBeGreaterThanOrEqual(2);
    await ended(broker, 'many', 'many-11');
    await queueIsEmpty();
  });
});
