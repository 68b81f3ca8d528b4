import { Code, ConnectError } from '@connectrpc/connect';
import { ErrorInfoSchema } from '../../gen/google/rpc/error_details_pb.js';

/** Reasons this client gives itself; all others are the server's words. */
export type LocalReason =
  | 'SERVER_UNREACHABLE'
  | 'CONNECTION_LOST'
  | 'OUTPUT_HOLE'
  | 'DETACHED'
  | 'CLIENT_CLOSED'
  | 'ALREADY_CONSUMED'
  | 'INPUT_CLOSED'
  | 'INVALID_OPTION';

/** The one error of this client. Match on `reason`: it is stable; the message is for people. */
export class AssayError extends Error {
  /** A stable word such as `SESSION_NOT_FOUND`. */
  readonly reason: string;
  /** The gRPC code by name, such as `NOT_FOUND`. */
  readonly code: string;
  /** What the server says about the error: ids, limits, fields. */
  readonly metadata: Readonly<Record<string, string>>;
  /** Whether the same call may succeed a little later. */
  readonly transient: boolean;
  /** Whether the call certainly never reached a server. */
  readonly unsent: boolean;

  constructor(reason: string, message: string, details: AssayErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = 'AssayError';
    this.reason = reason;
    this.code = details.code ?? 'UNKNOWN';
    this.metadata = details.metadata ?? {};
    this.transient = details.transient ?? false;
    this.unsent = details.unsent ?? false;
  }
}

export interface AssayErrorDetails {
  code?: string;
  metadata?: Readonly<Record<string, string>>;
  transient?: boolean;
  unsent?: boolean;
  cause?: unknown;
}

/** The one place where what the transport throws becomes an AssayError. */
export function toAssayError(error: unknown, endpoint: string): AssayError {
  if (error instanceof AssayError) return error;
  if (!(error instanceof ConnectError)) return new AssayError('INTERNAL', String(error), { cause: error });
  const code = codeName(error.code);
  const info = error.findDetails(ErrorInfoSchema)[0];
  if (info !== undefined) {
    // A rate limit refuses before anything is done, so waiting and asking again is as safe as for UNAVAILABLE.
    const transient = error.code === Code.Unavailable || info.reason === 'RATE_LIMITED';
    return new AssayError(info.reason, error.rawMessage, { code, metadata: info.metadata, transient, cause: error });
  }
  if (error.metadata.has('grpc-status') || lasting.has(error.code)) {
    const transient = error.code === Code.Unavailable;
    return new AssayError(code, error.rawMessage, { code, transient, cause: error });
  }
  return connectionError(error, code, endpoint);
}

/** Without a status of the server's the connection itself failed, whatever code the transport chose for it. */
function connectionError(failure: ConnectError, code: string, endpoint: string): AssayError {
  const unsent = neverConnected(failure);
  const details = { code, transient: true, unsent, cause: failure };
  return unsent
    ? new AssayError('SERVER_UNREACHABLE', `no server answers at ${endpoint} (${failure.rawMessage})`, details)
    : new AssayError('CONNECTION_LOST', `the connection to ${endpoint} broke (${failure.rawMessage})`, details);
}

/** Codes that the transport gives for causes which trying again does not mend. */
const lasting: ReadonlySet<Code> = new Set([
  Code.Unimplemented,
  Code.Unauthenticated,
  Code.PermissionDenied,
  Code.ResourceExhausted,
  Code.DeadlineExceeded,
]);

const neverConnectedCodes: ReadonlySet<unknown> = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH']);

function neverConnected(failure: ConnectError): boolean {
  for (let cause: unknown = failure; cause instanceof Error; cause = cause.cause) {
    if ('code' in cause && neverConnectedCodes.has(cause.code)) return true;
    // A name with several addresses fails with one error that holds the others.
    if (cause instanceof AggregateError && cause.errors.some((one) => neverConnectedCodes.has(one?.code))) return true;
  }
  return false;
}

function codeName(code: Code): string {
  return (Code[code] ?? 'Unknown').replace(/(?<=[a-z])(?=[A-Z])/g, '_').toUpperCase();
}
