import { JetStreamApiCodes, JetStreamApiError } from '@nats-io/jetstream';
import { DomainError } from '../domain-error.ts';

/** Somebody else wrote first: the compare of a compare-and-set failed. */
export function isConflict(error: unknown): boolean {
  return (
    error instanceof JetStreamApiError &&
    (error.code === JetStreamApiCodes.StreamWrongLastSequence ||
      error.code === JetStreamApiCodes.StreamWrongLastSequenceUnknown)
  );
}

/** The broker answered, and the answer was no. Anything else leaves open whether a write was made. */
export function isRefusal(error: unknown): boolean {
  return error instanceof JetStreamApiError;
}

/** What callers of a store see of any failure that is not a conflict. */
export function storeUnavailable(error: unknown): DomainError {
  if (error instanceof DomainError) return error;
  const said = error instanceof Error ? error.message : String(error);
  return new DomainError('STORE_UNAVAILABLE', `the store does not answer (${said}); try again`, {}, { cause: error });
}
