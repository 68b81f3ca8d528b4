import type { Duration, Timestamp } from '@bufbuild/protobuf/wkt';
import { AssayError } from './assay-error.ts';

/** Ten years: beyond it no server's limit goes, and arithmetic stays exact. */
const longestMs = 10 * 365 * 86_400_000;

export interface DurationFields {
  seconds: bigint;
  nanos: number;
}

/** Milliseconds as the fields of a google.protobuf.Duration. */
export function toDuration(name: string, ms: number): DurationFields {
  if (!(ms >= 0 && ms <= longestMs)) {
    throw new AssayError('INVALID_OPTION', `${name} is ${ms}; give milliseconds, from zero to ten years`);
  }
  const micros = Math.round(ms * 1000);
  return { seconds: BigInt(Math.floor(micros / 1e6)), nanos: (micros % 1e6) * 1000 };
}

export function toMilliseconds(duration: Duration | undefined): number {
  return duration === undefined ? 0 : Number(duration.seconds) * 1000 + duration.nanos / 1e6;
}

export function toDate(time: Timestamp | undefined): Date | undefined {
  return time === undefined ? undefined : new Date(Number(time.seconds) * 1000 + time.nanos / 1e6);
}
