import { join } from 'node:path';
import type { Logger } from '../../shared/log.ts';
import type { Broker } from '../../shared/store/broker.ts';
import { createNatsJobSource } from '../../shared/store/nats-job-queue.ts';
import { createNatsResultStore } from '../../shared/store/nats-result-store.ts';
import { createNatsVerificationStore } from '../../shared/store/nats-verification-store.ts';
import { createNatsSubmissionObjects } from '../../shared/store/submission-objects.ts';
import type { WorkerConfig } from '../config.ts';
import type { ContainerLimits, Engine } from '../docker/engine.ts';
import { createWorkerGradings } from '../grading/worker-gradings.ts';
import type { Admission } from '../host/admission.ts';
import type { Meter } from '../meter.ts';
import type { WorkerSamples } from '../sample/worker-samples.ts';
import { createGradingHold } from '../sandbox/grading-hold.ts';
import type { GradingPauses } from '../sandbox/grading-pauses.ts';
import type { RecordKeeper } from '../sandbox/record-keeper.ts';
import type { Sandboxes } from '../sandbox/sandboxes.ts';
import type { Manifests } from '../submission/manifests.ts';
import { createSealer } from '../submission/seal.ts';
import { createSubmissionThreads } from '../submission/submission-threads.ts';
import type { Validator } from '../validation/validator.ts';
import { createWorkerValidation } from '../validation/worker-validation.ts';
import { createJobHandler } from './job-handler.ts';
import { startJobLoop } from './job-loop.ts';
import { createSessionPlaces } from './session-places.ts';
import { createSessionSealer, type SessionSealer } from './session-sealer.ts';
import { createSharedSubmissions } from './shared-submissions.ts';
import { createVerificationLog } from './verification-log.ts';

const sweepMs = 60_000;
/** How soon a session goes on that could not be resumed when its grading ended. */
const lookMs = 500;

/** What the worker does for verifications: it seals those of its sessions, and grades those of anybody's. */
export interface WorkerVerifications {
  readonly seal: SessionSealer;
  readonly validate: Validator;
  readonly capabilities: readonly string[];
  /** Removes what an earlier life left, and takes jobs from then on. */
  start(): Promise<void>;
  /** Gives back what is being graded. */
  stop(): Promise<void>;
  close(): Promise<void>;
}

export interface WorkerVerificationsDeps {
  readonly broker: Broker;
  readonly engine: Engine;
  readonly manifests: Manifests;
  readonly samples: WorkerSamples;
  readonly sandboxes: Sandboxes;
  readonly pauses: GradingPauses;
  readonly records: RecordKeeper;
  readonly dataDirectory: string;
  readonly workerId: string;
  readonly defaultLimits: ContainerLimits;
  readonly admission: Admission;
  readonly meter: Meter;
  readonly log: Logger;
}

export async function createWorkerVerifications(
  config: WorkerConfig,
  deps: WorkerVerificationsDeps,
): Promise<WorkerVerifications> {
  const { broker, engine, manifests, samples, sandboxes, records, dataDirectory, workerId, meter, log } = deps;
  const threads = createSubmissionThreads(config.ASSAY_VERIFICATION_SLOTS + config.ASSAY_VALIDATION_SLOTS);
  const submissions = createSharedSubmissions({
    objects: await createNatsSubmissionObjects(broker, {
      keepMs: config.ASSAY_SUBMISSION_KEEP_SECONDS * 1_000,
      maxBytes: config.ASSAY_SUBMISSION_STORE_BYTES,
      replicas: config.ASSAY_NATS_REPLICAS,
    }),
    directory: join(dataDirectory, 'submissions'),
    maxBytes: config.ASSAY_SUBMISSION_CACHE_BYTES,
  });
  const results = await createNatsResultStore(broker, {
    keepMs: config.ASSAY_RESULT_KEEP_SECONDS * 1_000,
    maxBytes: config.ASSAY_RESULT_STORE_BYTES,
    replicas: config.ASSAY_NATS_REPLICAS,
  });
  const sealer = createSealer({
    ...{ engine, manifests, threads },
    stagingDirectory: join(dataDirectory, 'sealing'),
    timeoutMs: config.ASSAY_SEAL_SECONDS * 1_000,
  });
  const store = createNatsVerificationStore({
    broker,
    onEventLost: (error, id) => log.warn({ verification_id: id, err: error }, 'an event could not be published'),
  });
  const gradings = createWorkerGradings({ ...deps, config, threads });
  const ackWaitMs = config.ASSAY_JOB_ACK_SECONDS * 1_000;
  const jobs = createNatsJobSource({ broker, ackWaitMs, workerId });
  const places = createSessionPlaces({ engine, sandboxes, records, log });
  const hold = createGradingHold(deps);
  let looking: NodeJS.Timeout | undefined;
  const handler =
    gradings &&
    createJobHandler({
      ...{ store, results, submissions, jobs, workerId, ackWaitMs, meter, log, grader: gradings.grader, hold },
      samples: samples.cache,
      images: samples.images,
      session: places.of,
      attempts: config.ASSAY_VERIFICATION_ATTEMPTS,
    });
  const tell = createVerificationLog(() => sandboxes.live);
  const unwatch = store.watch((record) => {
    tell(record);
    handler?.look(record);
  });
  const { images } = samples;
  const validate = createWorkerValidation(config, { ...deps, images, threads, gradings });
  /** What happened while nobody watched: before this process began, or without a broker. */
  const catchUp = async (): Promise<void> => {
    if (sandboxes.size === 0) return;
    for (const record of await store.all()) {
      tell(record);
      handler?.look(record);
    }
  };
  const caughtUp = (): void =>
    void catchUp().catch((error) => log.warn({ err: error }, 'the verifications could not be looked through'));
  const unfollow = broker.onConnectionChange((connected) => connected && caughtUp());
  let loop: ReturnType<typeof startJobLoop> | undefined;
  /** Also for sessions that are taken up later. */
  const sweep = (): void =>
    void places.sweep().catch((error) => log.warn({ err: error }, 'a sweep of sessions for gradings did not finish'));
  const sweeping = setInterval(sweep, sweepMs).unref();
  return {
    seal: createSessionSealer({
      sandboxes,
      records,
      samples: samples.cache,
      images,
      sealer,
      submissions,
      meter,
      admission: deps.admission,
      grades: gradings !== undefined,
      hasLayers: engine.hasLayers,
    }),
    validate,
    capabilities: gradings === undefined ? [] : ['verification'],
    async start() {
      await gradings?.sweep();
      // Only now: what a worker before this one graded may have run until the sweep.
      hold.look();
      looking = setInterval(hold.look, lookMs).unref();
      await places.sweep();
      caughtUp();
      if (handler !== undefined) {
        const slots = config.ASSAY_VERIFICATION_SLOTS;
        const sharePercent = config.ASSAY_PROJECT_SHARE;
        loop = startJobLoop({ jobs, handler, slots, sharePercent, open: () => deps.admission.takesWork, log });
      }
    },
    stop: async () => loop?.stop(),
    async close() {
      clearInterval(sweeping);
      clearInterval(looking);
      unfollow();
      unwatch();
      await gradings?.close();
      await threads.close();
    },
  };
}
