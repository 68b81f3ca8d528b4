import { fromBinary, toBinary } from '@bufbuild/protobuf';
import { timestampMs } from '@bufbuild/protobuf/wkt';
import type { StoredMsg } from '@nats-io/jetstream';
import { headers } from '@nats-io/transport-node';
import { type SessionRecord, SessionRecordSchema } from '../../../gen/assay/internal/v1/records_pb.js';
import type { Broker } from './broker.ts';
import { endedStream } from './bucket-spec.ts';
import { answered } from './repeatable.ts';
import type { SessionArchive } from './session-archive.ts';
import { isConflict, isMissing } from './store-error.ts';

const { name: stream } = endedStream;
/** With these headers a list is made without the records. */
export const createdHeader = 'Assay-Created';
export const stateHeader = 'Assay-State';

export function endedSubject(project: string, sessionId: string): string {
  return `assay.ended.${project}.${sessionId}`;
}

/** What the broker keeps beside a record: its headers, its length and a checksum. */
const overheadBytes = 128;

/** What a record takes of the archive. */
export function archiveBytes(record: SessionRecord): number {
  const subject = endedSubject(record.project, record.session?.sessionId ?? '');
  return storedBytes(subject, toBinary(SessionRecordSchema, record).length);
}

export function storedBytes(subject: string, payloadBytes: number): number {
  return subject.length + payloadBytes + overheadBytes;
}

/** Records of ended sessions on the stream `ASSAY_ENDED_SESSIONS`, one message each. */
export function createNatsSessionArchive(broker: Broker): SessionArchive {
  const guarded = <T>(call: () => Promise<T>): Promise<T> => answered(broker, call);
  const streams = async () => (await broker.js.jetstreamManager(false)).streams;
  const find = (query: { last_by_subj: string } | { seq: number }): Promise<StoredMsg | undefined> =>
    guarded(async () => {
      try {
        return (await (await streams()).getMessage(stream, query)) ?? undefined;
      } catch (error) {
        if (isMissing(error)) return undefined;
        throw error;
      }
    });
  return {
    add: (record) =>
      guarded(async () => {
        const { session } = record;
        if (session === undefined) throw new TypeError('a session record without a session');
        const told = headers();
        told.set(createdHeader, String(session.createTime === undefined ? 0 : timestampMs(session.createTime)));
        told.set(stateHeader, String(session.state));
        const subject = endedSubject(record.project, session.sessionId);
        const options = { headers: told, expect: { lastSubjectSequence: 0 } };
        await broker.js.publish(subject, toBinary(SessionRecordSchema, record), options).catch((error: unknown) => {
          if (!isConflict(error)) throw error;
        });
      }),
    async get(project, sessionId) {
      const found = await find({ last_by_subj: endedSubject(project, sessionId) });
      return found && { value: recordIn(found), revision: found.seq, archived: true };
    },
    async at(place) {
      const found = await find({ seq: place });
      return found && recordIn(found);
    },
    room: () =>
      guarded(async () => {
        const { config, state } = await (await streams()).info(stream);
        const { bytes, messages, first_seq } = state;
        return { bytes, records: messages, maxBytes: config.max_bytes, firstPlace: first_seq };
      }),
    removeBefore: (project, place) =>
      guarded(async () => {
        const { purged } = await (await streams()).purge(stream, { filter: endedSubject(project, '*'), seq: place });
        return purged;
      }),
  };
}

function recordIn({ data }: StoredMsg): SessionRecord {
  return fromBinary(SessionRecordSchema, data);
}
