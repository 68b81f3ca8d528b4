import { create } from '@bufbuild/protobuf';
import { timestampMs, timestampNow } from '@bufbuild/protobuf/wkt';
import type { VerificationRecord } from '../../../gen/assay/internal/v1/records_pb.js';
import {
  type Session,
  type SessionEvent,
  SessionEventSchema,
  TranscriptState,
} from '../../../gen/assay/v1/session_pb.js';
import type { TranscriptReader } from '../../shared/store/transcript-store.ts';
import { isFinal, verificationOf } from '../../shared/verification/verification-state.ts';
import type { WorkShares } from '../../shared/work-shares.ts';
import type { VerificationDirectory } from '../verification/verification-directory.ts';
import { endMs, isLatePlace, lateEnds } from './late-ends.ts';
import { parsePlace } from './log-place.ts';
import { type LogSelection, readTranscript } from './transcript-reader.ts';

/** What happened in a session that has ended, after a place: from the archive, then what that was written too early for. */
export type EndedLog = (
  project: string,
  session: Session,
  selection: LogSelection,
  place: string,
) => AsyncGenerator<SessionEvent, void>;

export interface EndedLogDeps {
  readonly transcripts: TranscriptReader;
  readonly verifications: Pick<VerificationDirectory, 'ofProject'>;
  readonly shares: WorkShares;
}

/** The place after which the log was found missing. */
const gone = 'gone';
const behindAll = { position: Number.POSITIVE_INFINITY, offset: 0 };

export function createEndedLog({ transcripts, verifications, shares }: EndedLogDeps): EndedLog {
  /** Without an archive that says which it tells, those that ended before the session did count as told. */
  const late = async (project: string, session: Session, ends: ReadonlySet<string> | undefined, place: string) => {
    const endedMs = session.endTime === undefined ? 0 : timestampMs(session.endTime);
    const isTold = (record: VerificationRecord): boolean =>
      ends === undefined ? endMs(record) < endedMs : ends.has(verificationOf(record).verificationId);
    const records = await verifications.ofProject(project);
    const own = records.filter((record) => verificationOf(record).sessionId === session.sessionId);
    return lateEnds(own, isTold, place);
  };
  return async function* (project, session, selection, place) {
    const { sessionId, transcriptState } = session;
    const isStored = transcriptState === TranscriptState.STORED;
    const pieces = isStored && place !== gone ? await transcripts.get(project, sessionId) : undefined;
    const ends = pieces && new Set<string>();
    const see = ({ event }: SessionEvent): void => {
      if (event.case === 'verification' && isFinal(event.value.state)) ends?.add(event.value.verificationId);
    };
    if (pieces !== undefined) {
      const from = isLatePlace(place) ? behindAll : parsePlace(place);
      yield* readTranscript(pieces, from, selection, see, () => shares.turn(project));
    } else if (place !== gone && !isLatePlace(place)) {
      const expired = 'the transcript was kept for a time, which has passed';
      if (isStored) yield missing(expired);
      if (transcriptState === TranscriptState.MISSING) yield missing(session.transcriptMessage);
    }
    if (selection.executionId === '') yield* await late(project, session, ends, place);
  };
}

function missing(message: string): SessionEvent {
  const event = { case: 'missing', value: { message } } as const;
  return create(SessionEventSchema, { time: timestampNow(), cursor: gone, event });
}
