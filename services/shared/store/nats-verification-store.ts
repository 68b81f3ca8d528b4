import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { timestampNow } from '@bufbuild/protobuf/wkt';
import { isMessageNotFound } from '@nats-io/jetstream/internal';
import { KvWatchInclude } from '@nats-io/kv';
import { headers } from '@nats-io/transport-node';
import { EventSchema } from '../../../gen/assay/events/v1/events_pb.js';
import { type VerificationRecord, VerificationRecordSchema } from '../../../gen/assay/internal/v1/records_pb.js';
import { DomainError } from '../domain-error.ts';
import { forAgents } from '../verification/agent-view.ts';
import { change } from '../verification/verification-change.ts';
import { verificationOf } from '../verification/verification-state.ts';
import type { Broker } from './broker.ts';
import { eventStream } from './bucket-spec.ts';
import { createRecordBucket } from './record-bucket.ts';
import { answered as answeredBy, repeatable } from './repeatable.ts';
import type { Stored } from './session-store.ts';
import { isConflict, storeUnavailable } from './store-error.ts';
import type { VerificationStore } from './verification-store.ts';

export interface NatsVerificationStoreOptions {
  readonly broker: Broker;
  /** Told of an event that could not be published: the record is written all the same, and it is the truth. */
  readonly onEventLost: (error: unknown, verificationId: string) => void;
}

const bucketName = 'assay_verifications';
const conflictsBeforeGivingUp = 50;
const rewatchDelayMs = 250;
/** Whoever did not see a mark for so long reads everything anew anyway. */
const markMs = 5_000;

export function verificationKey(project: string, verificationId: string): string {
  return `${project}.${verificationId}`;
}

/** Verification records in the bucket `assay_verifications`, their events on the stream `ASSAY_EVENTS`. */
export function createNatsVerificationStore(options: NatsVerificationStoreOptions): VerificationStore {
  const { broker, onEventLost } = options;
  const bucket = createRecordBucket(broker, bucketName, VerificationRecordSchema);

  const subjectOf = ({ project, verification }: VerificationRecord): string =>
    `assay.events.${project}.verification.${verification?.verificationId}`;
  const isAnnounced = async (stored: Stored<VerificationRecord>): Promise<boolean> => {
    const query = { last_by_subj: subjectOf(stored.value) };
    try {
      const { streams } = await broker.js.jetstreamManager(false);
      const last = await repeatable(broker, () => streams.getMessage(eventStream.name, query));
      const event = last === null ? undefined : fromBinary(EventSchema, last.data).event;
      return event?.case === 'verificationChanged' && event.value.revision >= BigInt(stored.revision);
    } catch (error) {
      if (isMessageNotFound(error as Error)) return false;
      throw storeUnavailable(error);
    }
  };
  const announce = async (stored: Stored<VerificationRecord>): Promise<boolean> => {
    const { project } = stored.value;
    const verification = verificationOf(stored.value);
    const id = verification.verificationId;
    const value = { verification: forAgents(verification), revision: BigInt(stored.revision) };
    const event = create(EventSchema, { time: timestampNow(), project, event: { case: 'verificationChanged', value } });
    const subject = subjectOf(stored.value);
    const msgID = `${id}.${stored.revision}`;
    try {
      await repeatable(broker, () => broker.js.publish(subject, toBinary(EventSchema, event), { msgID }));
      return true;
    } catch (error) {
      onEventLost(error, id);
      return false;
    }
  };
  /** Where a record was, a message without one, for those who keep all of them in memory. */
  const marks: { readonly subject: string; readonly revision: number; readonly setMs: number }[] = [];
  /** All of a subject up to this revision; it leaves nothing, and needs no room. */
  const purge = async (subject: string, revision: number): Promise<boolean> => {
    const { streams } = await broker.js.jetstreamManager(false);
    const upTo = { filter: subject, seq: revision + 1 };
    return (await streams.purge(`KV_${bucketName}`, upTo)).purged > 0;
  };
  const setMark = async (subject: string): Promise<void> => {
    const mark = headers();
    mark.set('KV-Operation', 'PURGE');
    try {
      const { seq } = await broker.js.publish(subject, '', { headers: mark, expect: { lastSubjectSequence: 0 } });
      marks.push({ subject, revision: seq, setMs: Date.now() });
    } catch (error) {
      // Another one is there, or a newer record.
      if (!isConflict(error)) throw error;
    }
  };
  const answered = <T>(call: () => Promise<T>): Promise<T> => answeredBy(broker, call);
  return {
    room: bucket.room,
    async remove({ value, revision }) {
      const subject = `$KV.${bucketName}.${verificationKey(value.project, verificationOf(value).verificationId)}`;
      const removed = await answered(() => purge(subject, Number(revision)));
      await answered(() => setMark(subject));
      return removed;
    },
    async tidy() {
      for (let [mark] = marks; mark !== undefined && Date.now() - mark.setMs > markMs; [mark] = marks) {
        const { subject, revision } = mark;
        await answered(() => purge(subject, revision));
        marks.shift();
      }
    },
    announce,
    isAnnounced,
    async create(record) {
      const key = verificationKey(record.project, verificationOf(record).verificationId);
      const stored = await bucket.compareAndSet(key, record, 0);
      if (stored !== undefined) await announce(stored);
      return stored;
    },
    get: (project, verificationId) => bucket.get(verificationKey(project, verificationId)),
    async change(project, verificationId, what) {
      const key = verificationKey(project, verificationId);
      for (let conflicts = 0; conflicts < conflictsBeforeGivingUp; conflicts += 1) {
        const found = await bucket.get(key);
        if (found === undefined) return undefined;
        const next = change(found.value, what);
        if (next === undefined) return { ...found, changed: false, announced: false };
        const stored = await bucket.compareAndSet(key, next, Number(found.revision));
        if (stored === undefined) continue;
        return { ...stored, changed: true, announced: await announce(stored) };
      }
      const message = `the record of ${verificationId} was changed by others ${conflictsBeforeGivingUp} times in a row; try again`;
      throw new DomainError('STORE_UNAVAILABLE', message);
    },
    all: async () => (await bucket.all()).map(({ value }) => value),
    watch: (listener) => keepWatching(broker, listener),
  };
}

/** A watch of what is written from now on, and a new one whenever it ends. */
function keepWatching(broker: Broker, listener: (record: VerificationRecord) => void): () => void {
  const kv = broker.bucket(bucketName);
  let stopped = false;
  let stopWatch = (): void => {};
  // The watch would find out by its missing heartbeats; a new one is sure and at once.
  const unfollow = broker.onConnectionChange((connected) => connected && stopWatch());
  const watchOnce = async (): Promise<void> => {
    await broker.whenConnected();
    const watch = await kv.watch({ include: KvWatchInclude.UpdatesOnly });
    stopWatch = () => watch.stop();
    if (stopped) watch.stop();
    for await (const entry of watch) {
      if (entry.operation === 'PUT') listener(fromBinary(VerificationRecordSchema, entry.value));
    }
  };
  void (async () => {
    while (!stopped) {
      await watchOnce().catch(() => {});
      if (!stopped) await new Promise((resolve) => setTimeout(resolve, rewatchDelayMs));
    }
  })();
  return () => {
    stopped = true;
    unfollow();
    stopWatch();
  };
}
