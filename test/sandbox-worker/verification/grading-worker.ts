import { create } from '@bufbuild/protobuf';
import { type VerificationRecord, VerificationRecordSchema } from '../../../gen/assay/internal/v1/records_pb.js';
import { type Verification, VerificationState } from '../../../gen/assay/v1/verification_pb.js';
import type { Graded, Grader, GradingOrder } from '../../../services/sandbox-worker/grading/grader.ts';
import type { SubmissionStore } from '../../../services/sandbox-worker/submission/submission-store.ts';
import { createJobHandler } from '../../../services/sandbox-worker/verification/job-handler.ts';
import { startJobLoop } from '../../../services/sandbox-worker/verification/job-loop.ts';
import { createLog } from '../../../services/shared/log.ts';
import type { SampleFolder } from '../../../services/shared/sample/read-sample.ts';
import type { Broker } from '../../../services/shared/store/broker.ts';
import type { JobDelivery } from '../../../services/shared/store/job-queue.ts';
import { createNatsJobQueue, createNatsJobSource } from '../../../services/shared/store/nats-job-queue.ts';
import { createNatsResultStore } from '../../../services/shared/store/nats-result-store.ts';
import { createNatsVerificationStore } from '../../../services/shared/store/nats-verification-store.ts';
import type { VerificationStore } from '../../../services/shared/store/verification-store.ts';
import type { Verdict } from '../../../services/shared/verdict/outcome.ts';
import { isFinal, verificationOf } from '../../../services/shared/verification/verification-state.ts';

/** Everything of a worker's verifications but the grading itself, which a test writes. */
export interface GradingWorker {
  stop(): Promise<void>;
  readonly running: number;
  /** A delivery that did not come through the loop. */
  handle(delivery: JobDelivery): Promise<void>;
}

export interface GradingWorkerOptions {
  readonly broker: Broker;
  readonly grade: Grader['grade'];
  readonly workerId?: string;
  readonly slots?: number;
  readonly sharePercent?: number;
  /** Longer than any test waits, so that no job that was forgotten is done in the end after all. */
  readonly ackWaitMs?: number;
  readonly attempts?: number;
  /** In place of the store itself. */
  readonly store?: VerificationStore;
  readonly submissions?: SubmissionStore;
}

const digest = `sha256:${'0'.repeat(64)}`;

export async function startGradingWorker(options: GradingWorkerOptions): Promise<GradingWorker> {
  const {
    broker,
    grade,
    workerId = 'worker-a',
    slots = 2,
    sharePercent = 100,
    ackWaitMs = 120_000,
    attempts = 3,
  } = options;
  const jobs = createNatsJobSource({ broker, ackWaitMs, workerId });
  const log = createLog('test', 'silent');
  const store = options.store ?? storeOn(broker);
  const handler = createJobHandler({
    ...{ store, jobs, workerId, attempts, ackWaitMs, log, firstPauseMs: 50 },
    meter: { gradings: 0, gradingEnded() {} },
    results: await createNatsResultStore(broker, { keepMs: 60_000, maxBytes: 2 ** 24, replicas: 1 }),
    submissions: () =>
      options.submissions ?? {
        put: async () => {},
        remove: async () => {},
        fetch: async () => ({ file: '/nowhere', release: async () => {} }),
      },
    samples: { folder: async () => sample },
    images: { ensure: async () => digest },
    grader: { grade },
  });
  const unwatch = store.watch((record) => handler.look(record));
  const loop = startJobLoop({ jobs, handler, slots, sharePercent, log, lookEveryMs: 20 });
  return {
    get running() {
      return handler.running;
    },
    handle: handler.handle,
    async stop() {
      unwatch();
      await loop.stop();
    },
  };
}

const sample = {
  folder: '/nowhere',
  sample: { verification: { reports: [{ format: 'junit' }] } },
} as unknown as SampleFolder;

export function storeOn(broker: Broker) {
  return createNatsVerificationStore({
    broker,
    onEventLost(error) {
      throw error;
    },
  });
}

/** Records a verification and queues its job, for one worker where it is named. */
export async function queue(broker: Broker, project: string, verificationId: string, workerId = ''): Promise<void> {
  const record = recordOf(project, verificationId);
  record.inPlaceWorkerId = workerId;
  await storeOn(broker).create(record);
  await createNatsJobQueue(broker).publish(project, verificationId, workerId);
}

export function recordOf(project: string, verificationId: string): VerificationRecord {
  const digests = { submission: digest, sample: digest, verification: digest, image: digest };
  return create(VerificationRecordSchema, {
    project,
    verification: { verificationId, state: VerificationState.PENDING, digests },
  });
}

export async function ended(broker: Broker, project: string, verificationId: string): Promise<Verification> {
  for (;;) {
    const found = await storeOn(broker).get(project, verificationId);
    if (found !== undefined && isFinal(verificationOf(found.value).state)) return verificationOf(found.value);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

export function graded(verdict: Verdict = 'PASSED'): Graded {
  const empty = { bytes: new Uint8Array(), totalBytes: 0, truncated: false };
  return {
    judgement: {
      verdict,
      isSuccess: verdict === 'PASSED',
      assurance: 'ISOLATED',
      trainable: true,
      reward: verdict === 'PASSED' ? 1 : 0,
      counts: { total: 1, passed: 1, failed: 0, skipped: 0 },
      tests: [{ name: 'one', status: 'passed', role: 'fail_to_pass', durationMs: 3, message: '' }],
      reasons: ['said so'],
    },
    runs: [],
    stdout: { ...empty, bytes: Buffer.from('out'), totalBytes: 3 },
    stderr: empty,
    steps: [{ name: 'run', ms: 5 }],
    cpuMs: 1,
    peakMemoryBytes: 1,
    notes: [],
  };
}

/** Goes on until it is stopped, as a grading that takes long. */
export function endless(order: GradingOrder): Promise<never> {
  order.phase('running');
  return new Promise((_, reject) => {
    if (order.signal.aborted) reject(order.signal.reason);
    order.signal.addEventListener('abort', () => reject(order.signal.reason));
  });
}
