import type { SessionRecord } from '../../../gen/assay/internal/v1/records_pb.js';
import { isOver } from '../../shared/session-state.ts';
import type { Reminder, SessionName } from '../../shared/store/session-store.ts';
import type { ContainerSummary } from '../docker/engine.ts';
import { ownersOf } from './container-owner.ts';
import type { RecordKeeper } from './record-keeper.ts';
import { projectLabel, type Sandboxes } from './sandboxes.ts';
import type { Slots } from './slot.ts';

export interface DueSessionsDeps {
  readonly sandboxes: Sandboxes;
  readonly records: RecordKeeper;
  readonly slots: Slots;
  /** Milliseconds that only ever grow. */
  readonly now: () => number;
}

/**
 * Finds the sessions for which the worker may have something to do. It asks the store for these alone: a session that has a
 * sandbox here is as it should be, and one that has ended and left nothing here concerns nobody.
 */
export interface DueSessions {
  /** Records of this worker's sessions with a container or directory here, or a reminder, or left from the time before, but without a sandbox. */
  find(containers: readonly ContainerSummary[], directories: readonly string[]): Promise<SessionRecord[]>;
  /** Has the next search look at these again, as far as they are not over. */
  leave(records: readonly SessionRecord[]): void;
}

/** A reminder is given before the record is written. One without a record of this worker for so long will get none. */
const staleMs = 60_000;

export function createDueSessions({ sandboxes, records, slots, now }: DueSessionsDeps): DueSessions {
  let left: SessionName[] = [];
  /** When a reminder without a record was first seen, by its revision. */
  const unrecorded = new Map<number, number>();

  function projectIn(directory: string): string | undefined {
    try {
      return slots.open(directory).load().project;
    } catch {
      // It was not described yet when its worker died.
      return undefined;
    }
  }

  function* named(containers: readonly ContainerSummary[], directories: readonly string[]): Generator<SessionName> {
    for (const sessionId of directories) {
      const project = projectIn(sessionId);
      if (project) yield { project, sessionId };
    }
    for (const [{ labels }, sessionId] of ownersOf(containers, sandboxes.live, slots)) {
      const project = labels[projectLabel];
      if (project !== undefined) yield { project, sessionId };
    }
    yield* left;
  }

  /** A reminder has done its work when the session has its sandbox here, or is over, or is another worker's. */
  async function clear(reminders: readonly Reminder[], found: ReadonlyMap<string, SessionRecord>): Promise<void> {
    const made = new Set(Array.from(sandboxes.live, ({ sessionId }) => sessionId));
    const isDone = ({ sessionId, revision }: Reminder): boolean => {
      const session = found.get(sessionId)?.session;
      if (made.has(sessionId) || (session !== undefined && isOver(session))) return true;
      if (session !== undefined || sandboxes.holds(sessionId)) return false;
      const since = unrecorded.get(revision) ?? now();
      unrecorded.set(revision, since);
      return now() - since >= staleMs;
    };
    await Promise.all(reminders.filter(isDone).map(records.dropReminder));
    const given = new Set(reminders.map(({ revision }) => revision));
    for (const revision of unrecorded.keys()) if (!given.has(revision)) unrecorded.delete(revision);
  }

  return {
    async find(containers, directories) {
      const reminders = await records.reminders();
      const names = new Map<string, SessionName>();
      for (const name of [...named(containers, directories), ...reminders]) {
        if (!sandboxes.holds(name.sessionId)) names.set(name.sessionId, name);
      }
      const read = Array.from(names.values(), ({ project, sessionId }) => records.get(project, sessionId));
      const found = (await Promise.all(read)).filter((record) => record !== undefined);
      await clear(reminders, new Map(found.map((record) => [record.session?.sessionId ?? '', record])));
      return found;
    },
    leave(records) {
      left = records.flatMap(({ project, session }) =>
        session === undefined || isOver(session) ? [] : [{ project, sessionId: session.sessionId }],
      );
    },
  };
}
