import { type Duration, durationMs } from '@bufbuild/protobuf/wkt';
import { DomainError } from '../../shared/domain-error.ts';

/** A value of the wrong shape. */
export function invalid(field: string, found: string, expected: string): DomainError {
  return new DomainError('INVALID_FIELD', `${field}: ${found}; expected ${expected}`, { field });
}

/** A request of which no field can be told: its body, or the header that is named. */
export function unreadable(found: string, expected: string, header?: string): DomainError {
  const message = `${header ?? 'request'}: ${found}; expected ${expected}`;
  return new DomainError('UNREADABLE_REQUEST', message, header === undefined ? {} : { header });
}

/** A message that is longer than one may be. */
export function requestTooLong(found: number, limit: number): DomainError {
  const message = `request: found ${found} bytes, the limit is ${limit}`;
  return new DomainError('LIMIT_EXCEEDED', message, { limit: String(limit) });
}

/** A value of the right shape and too large, or too small. */
export function overLimit(field: string, found: number | bigint, limit: number, what: string): DomainError {
  const message = `${field}: found ${found} ${what}, the limit is ${limit}`;
  return new DomainError('LIMIT_EXCEEDED', message, { field, limit: String(limit) });
}

export function checkBytes(field: string, value: string | Uint8Array, limit: number): void {
  const bytes = typeof value === 'string' ? Buffer.byteLength(value) : value.length;
  if (bytes > limit) throw overLimit(field, bytes, limit, 'bytes');
}

export function checkCount(field: string, count: number, limit: number): void {
  if (count > limit) throw overLimit(field, count, limit, 'entries');
}

/** Text that ends up in a C string. */
export function checkNoNul(field: string, value: string): void {
  if (value.includes('\0')) throw invalid(field, 'found a NUL character', 'text without one');
}

/** A number from `min` to `max`, both included. */
export function checkRange(field: string, value: number | bigint, min: number, max: number, unit: string): void {
  if (typeof value === 'number' && !Number.isFinite(value))
    throw invalid(field, `found ${value}`, `a number from ${min} to ${max}`);
  if (value < min) throw overLimit(field, value, min, `${unit}, less than allowed`);
  if (value > max) throw overLimit(field, value, max, unit);
}

/** A duration in milliseconds, from `minMs` to `maxMs`. */
export function checkDuration(field: string, value: Duration, minMs: number, maxMs: number): number {
  const seconds = Number(value.seconds);
  const mixed = (seconds > 0 && value.nanos < 0) || (seconds < 0 && value.nanos > 0);
  if (mixed || Math.abs(value.nanos) > 999_999_999) {
    throw invalid(field, 'found a malformed duration', 'seconds and nanos of one sign, nanos below a second');
  }
  const ms = durationMs(value);
  checkRange(field, ms, minMs, maxMs, 'ms');
  return ms;
}

const quoted = 64;

/** What was found, short enough for an error. */
export function show(value: string): string {
  return JSON.stringify(value.length > quoted ? `${value.slice(0, quoted)}…` : value);
}
