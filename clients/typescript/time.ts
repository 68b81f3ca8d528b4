import type { Duration, Timestamp } from '@bufbuild/protobuf/wkt';
import { AssayError } from './assay-error.ts';

export interface DurationFields {
  seconds: bigint;
  nanos: number;
}

/** Milliseconds as the fields of a google.protobuf.Duration. */
export function toDuration(name: string, ms: number): DurationFields {
  if (!Number.isFinite(ms) || ms < 0) {
    throw new AssayError('INVALID_OPTION', `${name} is ${ms}; give milliseconds, zero or more`);
  }
  const seconds = Math.floor(ms / 1000);
  return { seconds: BigInt(seconds), nanos: Math.round((ms - seconds * 1000) * 1e6) % 1e9 };
}

export function toMilliseconds(duration: Duration | undefined): number {
  return duration === undefined ? 0 : Number(duration.seconds) * 1000 + duration.nanos / 1e6;
}

export function toDate(time: Timestamp | undefined): Date | undefined {
  return time === undefined ? undefined : new Date(Number(time.seconds) * 1000 + time.nanos / 1e6);
}
