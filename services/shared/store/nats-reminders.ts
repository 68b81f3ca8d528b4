import type { Broker } from './broker.ts';
import { answered } from './repeatable.ts';
import type { Reminder } from './session-store.ts';
import { isMissing } from './store-error.ts';

/**
 * Notes to workers that a session was given to them, in the bucket `assay_reminders` under `<worker>.<project>.<session>`,
 * so that a worker finds what it was not told of without reading what belongs to others. The session's record decides.
 */
export interface Reminders {
  give(workerId: string, project: string, sessionId: string): Promise<void>;
  of(workerId: string): Promise<Reminder[]>;
  /** Leaves one alone that was given again since. */
  drop(reminder: Reminder): Promise<void>;
}

const bucketName = 'assay_reminders';
const stream = `KV_${bucketName}`;
const nothing = new Uint8Array();

export function createNatsReminders(broker: Broker): Reminders {
  const kv = broker.bucket(bucketName);
  const guarded = <T>(call: () => Promise<T>): Promise<T> => answered(broker, call);
  const streams = async () => (await broker.js.jetstreamManager(false)).streams;
  return {
    give: (workerId, project, sessionId) =>
      guarded(async () => void (await kv.put(`${workerId}.${project}.${sessionId}`, nothing))),
    of: (workerId) =>
      guarded(async () => {
        const prefix = `$KV.${bucketName}.${workerId}.`;
        const { state } = await (await streams()).info(stream, { subjects_filter: `${prefix}>` });
        const found = Object.keys(state.subjects ?? {}).map(async (subject): Promise<Reminder[]> => {
          const [project = '', sessionId = ''] = subject.slice(prefix.length).split('.');
          const entry = await kv.get(`${workerId}.${project}.${sessionId}`);
          return entry === null ? [] : [{ project, sessionId, revision: entry.revision }];
        });
        return (await Promise.all(found)).flat();
      }),
    drop: ({ revision }) =>
      guarded(async () => {
        try {
          await (await streams()).deleteMessage(stream, revision, false);
        } catch (error) {
          if (!isMissing(error)) throw error;
        }
      }),
  };
}
