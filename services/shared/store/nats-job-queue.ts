import { create, toBinary } from '@bufbuild/protobuf';
import { AckPolicy, isMessageNotFound, type JetStreamManager } from '@nats-io/jetstream/internal';
import { type Msg, nanos } from '@nats-io/transport-node';
import { VerificationJobSchema } from '../../../gen/assay/internal/v1/records_pb.js';
import { type Broker, storeTimeoutMs } from './broker.ts';
import { jobStream } from './bucket-spec.ts';
import type { JobDelivery, JobQueue, JobSource } from './job-queue.ts';
import { answered } from './repeatable.ts';
import { isConsumerExists } from './store-error.ts';

const prefix = 'assay.jobs';

/** In the place of a project: jobs for one worker. No project has such a name. */
const workerQueue = 'worker_';

/** Jobs on the work queue `ASSAY_JOBS`, under `assay.jobs.<project or worker>.<verification id>`. */
export function createNatsJobQueue(broker: Broker): JobQueue {
  return {
    async publish(project, verificationId, workerId = '') {
      const job = create(VerificationJobSchema, { project, verificationId });
      const subject = subjectOf(project, verificationId, workerId);
      const bytes = toBinary(VerificationJobSchema, job);
      await answered(broker, () => broker.js.publish(subject, bytes, { msgID: verificationId }));
    },
    holds: (project, verificationId, workerId = '') =>
      finds(broker, (manager) =>
        manager.streams.getMessage(jobStream.name, { last_by_subj: subjectOf(project, verificationId, workerId) }),
      ),
  };
}

function subjectOf(project: string, verificationId: string, workerId: string): string {
  return `${prefix}.${workerId === '' ? project : `${workerQueue}${workerId}`}.${verificationId}`;
}

export interface NatsJobSourceOptions {
  readonly broker: Broker;
  /** A job that is neither kept alive nor acknowledged for this long comes again. */
  readonly ackWaitMs: number;
  /** Who takes the jobs. */
  readonly workerId: string;
}

/** One durable consumer for each project, asked by whoever has a free slot. */
export function createNatsJobSource({ broker, ackWaitMs, workerId }: NatsJobSourceOptions): JobSource {
  const known = new Set<string>();
  const isForOthers = (name: string): boolean => name.startsWith(workerQueue) && name !== `${workerQueue}${workerId}`;

  const ensureConsumer = async (project: string): Promise<void> => {
    if (known.has(project)) return;
    const { consumers } = await broker.js.jetstreamManager(false);
    const settings = {
      durable_name: project,
      filter_subject: `${prefix}.${project}.>`,
      ack_policy: AckPolicy.Explicit,
      ack_wait: nanos(ackWaitMs),
      // How often an attempt is made stands in the record, where a restart of the broker does not forget it.
      max_deliver: -1,
      max_ack_pending: jobStream.maxAckPending,
      // Of a project that is gone nothing stays; one that comes back gets a new one.
      inactive_threshold: nanos(jobStream.consumerIdleMs),
    };
    await consumers.add(jobStream.name, settings).catch((error: unknown) => {
      if (!isConsumerExists(error)) throw error;
      return consumers.update(jobStream.name, project, settings);
    });
    known.add(project);
  };
  return {
    projects: () =>
      answered(broker, async () => {
        const manager = await broker.js.jetstreamManager(false);
        const { state } = await manager.streams.info(jobStream.name, { subjects_filter: `${prefix}.>` });
        return [...new Set(Object.keys(state.subjects ?? {}).map(projectOf))].filter((name) => !isForOthers(name));
      }),
    take: (project) =>
      answered(broker, async () => {
        await ensureConsumer(project);
        const subject = `$JS.API.CONSUMER.MSG.NEXT.${jobStream.name}.${project}`;
        try {
          const ask = JSON.stringify({ batch: 1, no_wait: true });
          // A subscription of its own: a job keeps its subject, by which the shared one would not know whose answer it is.
          const message = await broker.connection.request(subject, ask, { timeout: storeTimeoutMs, noMux: true });
          return message.headers?.code ? undefined : deliveryOf(broker, message);
        } catch (error) {
          // Where the consumer is lost nobody answers: it is made again for the next try.
          known.delete(project);
          throw error;
        }
      }),
    has: (sequence) =>
      finds(broker, (manager) => manager.streams.getMessage(jobStream.name, { seq: Number(sequence) })),
    onJob(listener) {
      const subscription = broker.connection.subscribe(`${prefix}.>`, {
        callback: (error, message) => {
          if (error === null && !isForOthers(projectOf(message.subject))) listener(projectOf(message.subject));
        },
      });
      return () => subscription.unsubscribe();
    },
  };
}

function deliveryOf({ connection }: Broker, { data, reply = '' }: Msg): JobDelivery {
  const answer = (word: string): void => connection.publish(reply, word);
  return {
    data,
    sequence: sequenceOf(reply),
    // Asked for an answer, since an acknowledgement that is lost means that the job is done again.
    ack: async () => void (await connection.request(reply, '+ACK', { timeout: storeTimeoutMs })),
    nak: (delayMs) => answer(delayMs === 0 ? '-NAK' : `-NAK ${JSON.stringify({ delay: nanos(delayMs) })}`),
    working: () => answer('+WPI'),
    term: () => answer('+TERM'),
  };
}

/** `$JS.ACK.<stream>.<consumer>.<deliveries>.<sequence>.…`, in newer brokers with two more words before the stream. */
function sequenceOf(reply: string): bigint {
  const words = reply.split('.');
  return BigInt(words[words.length >= 11 ? 7 : 5] ?? '0');
}

function projectOf(subject: string): string {
  return subject.split('.')[2] ?? '';
}

async function finds(broker: Broker, ask: (manager: JetStreamManager) => Promise<unknown>): Promise<boolean> {
  return answered(broker, async () => {
    try {
      return (await ask(await broker.js.jetstreamManager(false))) !== null;
    } catch (error) {
      if (isMessageNotFound(error as Error)) return false;
      throw error;
    }
  });
}
