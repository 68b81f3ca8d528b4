import { create } from '@bufbuild/protobuf';
import { timestampMs } from '@bufbuild/protobuf/wkt';
import type { VerificationRecord } from '../../../gen/assay/internal/v1/records_pb.js';
import { type SessionEvent, SessionEventSchema } from '../../../gen/assay/v1/session_pb.js';
import { changeOf, isFinal, verificationOf } from '../../shared/verification/verification-state.ts';

const prefix = 'verified.';

/** Whether it is a place behind the whole log of a session that has ended, among the ends of its verifications. */
export function isLatePlace(place: string): boolean {
  return place.startsWith(prefix);
}

/** The ends of verifications that the log of their session could not hold, having ended before them; in order, after a place. */
export function lateEnds(
  records: readonly VerificationRecord[],
  isTold: (record: VerificationRecord) => boolean,
  place: string,
): SessionEvent[] {
  const late = records.filter((record) => isFinal(verificationOf(record).state) && !isTold(record));
  return late
    .map((record) => ({ record, cursor: placeOf(record) }))
    .filter(({ cursor }) => !isLatePlace(place) || cursor > place)
    .sort((a, b) => (a.cursor < b.cursor ? -1 : 1))
    .map(({ record, cursor }) => {
      const { endTime } = verificationOf(record);
      const event = { case: 'verification', value: changeOf(record) } as const;
      return create(SessionEventSchema, { cursor, event, ...(endTime && { time: endTime }) });
    });
}

/** Sorts as text like the time of its end. */
function placeOf(record: VerificationRecord): string {
  return `${prefix}${String(endMs(record)).padStart(16, '0')}.${verificationOf(record).verificationId}`;
}

export function endMs(record: VerificationRecord): number {
  const { endTime } = verificationOf(record);
  return endTime === undefined ? 0 : timestampMs(endTime);
}
