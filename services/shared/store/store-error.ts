import { JetStreamApiCodes, JetStreamApiError, jserrors } from '@nats-io/jetstream/internal';
import { NoRespondersError, RequestError } from '@nats-io/transport-node';
import { ConfigError } from '../config.ts';
import { DomainError } from '../domain-error.ts';

/** Somebody else wrote first: the compare of a compare-and-set failed. */
export function isConflict(error: unknown): boolean {
  return (
    error instanceof JetStreamApiError &&
    (error.code === JetStreamApiCodes.StreamWrongLastSequence ||
      error.code === JetStreamApiCodes.StreamWrongLastSequenceUnknown)
  );
}

/** Codes of JetStream's API that the client has no names for. */
const apiCodes = {
  noPeers: 10_005,
  temporarilyUnavailable: 10_008,
  notLeader: 10_009,
  sequenceNotFound: 10_043,
  deleteFailed: 10_057,
  storeFailed: 10_077,
  consumerExists: 10_148,
} as const;

/** No leader is there to answer, as during an election or a start of the broker. Nothing was done; a retry may succeed. */
export function isTemporary(error: unknown): boolean {
  if (error instanceof JetStreamApiError) {
    return error.code === apiCodes.temporarilyUnavailable || error.code === apiCodes.notLeader;
  }
  return (
    error instanceof jserrors.JetStreamNotEnabled ||
    error instanceof NoRespondersError ||
    (error instanceof RequestError && error.isNoResponders())
  );
}

/** At a start: the broker, or enough nodes of it, may come later. Everything but a refusal and a bad setting. */
export function isNotReady(error: unknown): boolean {
  if (error instanceof ConfigError || error instanceof TypeError) return false;
  if (!isRefusal(error)) return true;
  return isTemporary(error) || (error as JetStreamApiError).code === apiCodes.noPeers;
}

export function isStreamNotFound(error: unknown): boolean {
  return error instanceof JetStreamApiError && error.code === JetStreamApiCodes.StreamNotFound;
}

/** A stream that drops nothing has reached its size. */
export function isStreamFull(error: unknown): boolean {
  return error instanceof JetStreamApiError && error.code === apiCodes.storeFailed && /maximum/.test(error.message);
}

/** The consumer exists with other settings, which brokers from 2.10 on change only by an update. */
export function isConsumerExists(error: unknown): boolean {
  return error instanceof JetStreamApiError && error.code === apiCodes.consumerExists;
}

/** There is no message at this place. The broker has a word for a place that was never taken, and others for one that is empty. */
export function isMissing(error: unknown): boolean {
  return error instanceof JetStreamApiError && missing.has(error.code);
}

const missing: ReadonlySet<number> = new Set([
  JetStreamApiCodes.NoMessageFound,
  apiCodes.sequenceNotFound,
  apiCodes.deleteFailed,
]);

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
