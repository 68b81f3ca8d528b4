import { create, toBinary } from '@bufbuild/protobuf';
import { timestampNow } from '@bufbuild/protobuf/wkt';
import { EventSchema } from '../../../gen/assay/events/v1/events_pb.js';
import { type SessionRecord, SessionRecordSchema } from '../../../gen/assay/events/v1/records_pb.js';
import { SessionSchema } from '../../../gen/assay/v1/session_pb.js';
import { DomainError } from '../domain-error.ts';
import type { Broker } from './broker.ts';
import { createRecordBucket } from './record-bucket.ts';
import { repeatable } from './repeatable.ts';
import type { SessionStore, Stored } from './session-store.ts';

export interface NatsSessionStoreOptions {
  readonly broker: Broker;
  /** Told of an event that could not be published: the record is written all the same, and it is the truth. */
  readonly onEventLost: (error: unknown, sessionId: string) => void;
}

const conflictsBeforeGivingUp = 50;

export function sessionKey(project: string, sessionId: string): string {
  return `${project}.${sessionId}`;
}

/** Session records in the bucket `assay_sessions`, their events on the stream `ASSAY_EVENTS`. */
export function createNatsSessionStore({ broker, onEventLost }: NatsSessionStoreOptions): SessionStore {
  const bucket = createRecordBucket(broker, 'assay_sessions', SessionRecordSchema);

  const announce = async (stored: Stored<SessionRecord>): Promise<void> => {
    const { project, session } = stored.value;
    if (session === undefined) return;
    // Variables often are secrets, and the stream has readers that the project's keys do not.
    const change = { session: { ...create(SessionSchema, session), env: {} } };
    const event = create(EventSchema, {
      time: timestampNow(),
      project,
      event: { case: 'sessionChanged', value: change },
    });
    const id = session.sessionId;
    try {
      const subject = `assay.events.${project}.session.${id}`;
      const bytes = toBinary(EventSchema, event);
      await repeatable(broker, () => broker.js.publish(subject, bytes, { msgID: `${id}.${stored.revision}` }));
    } catch (error) {
      onEventLost(error, id);
    }
  };

  return {
    async create(record) {
      const key = sessionKey(record.project, idOf(record));
      const stored = await bucket.compareAndSet(key, record, 0);
      // Not waited for, nor even begun: it never fails, and whoever wrote the record goes on with it at once.
      if (stored !== undefined) setImmediate(announce, stored);
      return stored;
    },
    get: (project, sessionId) => bucket.get(sessionKey(project, sessionId)),
    async update(project, sessionId, change) {
      const key = sessionKey(project, sessionId);
      for (let conflicts = 0; conflicts < conflictsBeforeGivingUp; conflicts += 1) {
        const found = await bucket.get(key);
        if (found === undefined) return undefined;
        const next = change(found.value);
        if (next === undefined) return found;
        const stored = await bucket.compareAndSet(key, next, Number(found.revision));
        if (stored === undefined) continue;
        await announce(stored);
        return stored;
      }
      const message = `the record of ${sessionId} was changed by others ${conflictsBeforeGivingUp} times in a row; try again`;
      throw new DomainError('STORE_UNAVAILABLE', message);
    },
    async ofWorker(workerId) {
      const all = await bucket.all();
      return all.filter(({ value }) => value.session?.workerId === workerId);
    },
  };
}

function idOf(record: SessionRecord): string {
  if (record.session === undefined) throw new TypeError('a session record without a session');
  return record.session.sessionId;
}
