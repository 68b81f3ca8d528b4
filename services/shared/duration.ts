import { create } from '@bufbuild/protobuf';
import { type Duration, DurationSchema } from '@bufbuild/protobuf/wkt';

/** Exact, where a division by a thousand would not be. */
export function durationFromMicros(micros: number): Duration {
  const whole = Math.round(micros);
  return create(DurationSchema, { seconds: BigInt(Math.floor(whole / 1_000_000)), nanos: (whole % 1_000_000) * 1_000 });
}
