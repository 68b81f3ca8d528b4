import { create } from '@bufbuild/protobuf';
import { type SessionRecord, SessionRecordSchema } from '../../../gen/assay/internal/v1/records_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { Logger } from '../../shared/log.ts';
import { advance, type SessionEvent } from '../../shared/session-state.ts';
import type { Reminder, SessionStore, Stored } from '../../shared/store/session-store.ts';

/**
 * The worker's hand in the session records. What happened to a sandbox has happened whether or not the store answers, so
 * a write that fails is owed and written later.
 */
export interface RecordKeeper {
  /** Undefined also where the session was given to another worker. */
  get(project: string, sessionId: string): Promise<SessionRecord | undefined>;
  /** Writes a session's first record. Undefined: it has one. Nothing is owed: where the store is silent this rejects. */
  add(record: SessionRecord): Promise<Stored<SessionRecord> | undefined>;
  /** Changes nothing where the session was given to another worker. */
  put(project: string, sessionId: string, event: SessionEvent): Promise<void>;
  /** Writes what is owed. */
  settle(): Promise<void>;
  /** Every record of this worker outside the archive; rejects where the store does not answer in full. It reads those of all workers. */
  mine(): Promise<SessionRecord[]>;
  /** The sessions that were given to this worker and that it may not have heard of. */
  reminders(): Promise<Reminder[]>;
  dropReminder(reminder: Reminder): Promise<void>;
  owes(sessionId: string): boolean;
  /** Another worker has them from now on: nothing is written any more, nor owed, and reading is refused. */
  giveUp(): void;
}

export function createRecordKeeper(store: SessionStore, workerId: string, log: Logger): RecordKeeper {
  const owed = new Map<string, { project: string; events: SessionEvent[] }>();
  let givenUp = false;

  function checkOwn(): void {
    if (givenUp) throw new DomainError('SHUTTING_DOWN', 'the sessions of this worker are not its own any more');
  }

  async function write(project: string, sessionId: string, event: SessionEvent): Promise<void> {
    if (givenUp) return;
    await store.update(project, sessionId, (record) => {
      if (givenUp || record.session?.workerId !== workerId) return undefined;
      const session = advance(record.session, event);
      return session === undefined ? undefined : create(SessionRecordSchema, { ...record, session });
    });
  }

  return {
    async get(project, sessionId) {
      checkOwn();
      const record = (await store.get(project, sessionId))?.value;
      return record?.session?.workerId === workerId ? record : undefined;
    },
    async add(record) {
      checkOwn();
      return store.create(record);
    },
    async put(project, sessionId, event) {
      const debt = owed.get(sessionId);
      if (debt !== undefined) {
        debt.events.push(event);
        return;
      }
      try {
        await write(project, sessionId, event);
      } catch (error) {
        if (!(error instanceof DomainError)) throw error;
        if (givenUp) return;
        log.warn({ session_id: sessionId, event: event.type, err: error }, 'a session record is owed');
        owed.set(sessionId, { project, events: [event] });
      }
    },
    async settle() {
      // A record that cannot be written must not keep the others from being written.
      const debts = [...owed].map(async ([sessionId, debt]) => {
        for (let event = debt.events[0]; event !== undefined; event = debt.events[0]) {
          await write(debt.project, sessionId, event);
          debt.events.shift();
        }
        owed.delete(sessionId);
      });
      const failed = (await Promise.allSettled(debts)).find(({ status }) => status === 'rejected');
      if (failed !== undefined) throw (failed as PromiseRejectedResult).reason;
    },
    async mine() {
      checkOwn();
      return (await store.ofWorker(workerId)).map(({ value }) => value);
    },
    async reminders() {
      checkOwn();
      return store.remindersOf(workerId);
    },
    dropReminder: store.dropReminder,
    owes: (sessionId) => owed.has(sessionId),
    giveUp() {
      givenUp = true;
      owed.clear();
    },
  };
}
