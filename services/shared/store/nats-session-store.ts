import { create, toBinary } from '@bufbuild/protobuf';
import { timestampNow } from '@bufbuild/protobuf/wkt';
import { EventSchema } from '../../../gen/assay/events/v1/events_pb.js';
import { type SessionRecord, SessionRecordSchema } from '../../../gen/assay/internal/v1/records_pb.js';
import { SessionSchema, SessionState } from '../../../gen/assay/v1/session_pb.js';
import { DomainError } from '../domain-error.ts';
import type { Broker } from './broker.ts';
import { createNatsReminders } from './nats-reminders.ts';
import { createNatsSessionArchive } from './nats-session-archive.ts';
import { createRecordBucket } from './record-bucket.ts';
import { repeatable } from './repeatable.ts';
import type { SessionArchive } from './session-archive.ts';
import type { SessionStore, Stored, StoredSession } from './session-store.ts';

export interface NatsSessionStoreOptions {
  readonly broker: Broker;
  /** Where ended sessions are looked for. */
  readonly archive?: SessionArchive;
  /** Told of an event that could not be published: the record is written all the same, and it is the truth. */
  readonly onEventLost: (error: unknown, sessionId: string) => void;
}

const conflictsBeforeGivingUp = 50;

export function sessionKey(project: string, sessionId: string): string {
  return `${project}.${sessionId}`;
}

/**
 * Session records: live ones in the bucket `assay_sessions`, ended ones on the stream `ASSAY_ENDED_SESSIONS`; their events
 * on the stream `ASSAY_EVENTS`. A record is in the archive before it leaves the bucket, so whoever looks into the bucket
 * first and then into the archive finds every session.
 */
export function createNatsSessionStore(options: NatsSessionStoreOptions): SessionStore {
  const { broker, archive = createNatsSessionArchive(broker), onEventLost } = options;
  const bucket = createRecordBucket(broker, 'assay_sessions', SessionRecordSchema);
  const reminders = createNatsReminders(broker);
  const live = (stored: Stored<SessionRecord>): StoredSession => ({ ...stored, archived: false });

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
  const get = async (project: string, sessionId: string): Promise<StoredSession | undefined> => {
    const found = await bucket.get(sessionKey(project, sessionId));
    return found === undefined ? archive.get(project, sessionId) : live(found);
  };
  return {
    get,
    remindersOf: reminders.of,
    dropReminder: reminders.drop,
    async create(record) {
      const { sessionId, workerId, state } = sessionIn(record);
      if (state === SessionState.CREATING) await reminders.give(workerId, record.project, sessionId);
      const stored = await bucket.compareAndSet(sessionKey(record.project, sessionId), record, 0);
      // Not waited for, nor even begun: it never fails, and whoever wrote the record goes on with it at once.
      if (stored !== undefined) setImmediate(announce, stored);
      return stored && live(stored);
    },
    async update(project, sessionId, change) {
      for (let conflicts = 0; conflicts < conflictsBeforeGivingUp; conflicts += 1) {
        const found = await get(project, sessionId);
        if (found === undefined) return undefined;
        const next = change(found.value);
        if (next === undefined || found.archived) return found;
        const { workerId, state } = sessionIn(next);
        const moved = workerId !== found.value.session?.workerId && state === SessionState.CREATING;
        if (moved) await reminders.give(workerId, project, sessionId);
        const stored = await bucket.compareAndSet(sessionKey(project, sessionId), next, Number(found.revision));
        if (stored === undefined) continue;
        await announce(stored);
        return live(stored);
      }
      const message = `the record of ${sessionId} was changed by others ${conflictsBeforeGivingUp} times in a row; try again`;
      throw new DomainError('STORE_UNAVAILABLE', message);
    },
    async ofWorker(workerId) {
      const all = await bucket.all();
      return all.filter(({ value }) => value.session?.workerId === workerId).map(live);
    },
    remove: ({ revision }) => bucket.remove(Number(revision)),
    room: bucket.room,
  };
}

function sessionIn(record: SessionRecord) {
  if (record.session === undefined) throw new TypeError('a session record without a session');
  return record.session;
}
