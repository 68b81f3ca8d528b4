import { durationMs } from '@bufbuild/protobuf/wkt';
import { Code, ConnectError } from '@connectrpc/connect';
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from '../../gen/google/rpc/error_details_pb.js';
import { readConnectionFailure } from './connection-failure.ts';

/** Reasons this client gives itself; all others are the server's words. */
export type LocalReason =
  | 'SERVER_UNREACHABLE'
  | 'CONNECTION_LOST'
  | 'CERTIFICATE_NOT_TRUSTED'
  | 'WRONG_PROTOCOL'
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
  /** Whether the same call may succeed a little later: this client tries it again by itself where that is safe. */
  readonly transient: boolean;
  /** The least time to wait before the same call may succeed. Undefined: the server does not advise to try again. */
  readonly retryDelayMs: number | undefined;
  /** The fields of the request that the server does not accept, by their names in the proto. */
  readonly fieldViolations: readonly FieldViolation[];
  /** Whether the call certainly never reached a server. */
  readonly unsent: boolean;

  constructor(reason: string, message: string, details: AssayErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = 'AssayError';
    this.reason = reason;
    this.code = details.code ?? 'UNKNOWN';
    this.metadata = details.metadata ?? {};
    this.transient = details.transient ?? false;
    this.retryDelayMs = details.retryDelayMs;
    this.fieldViolations = details.fieldViolations ?? [];
    this.unsent = details.unsent ?? false;
  }
}

/** What is wrong with one field of a request. */
export interface FieldViolation {
  readonly field: string;
  readonly description: string;
}

export interface AssayErrorDetails {
  code?: string;
  metadata?: Readonly<Record<string, string>>;
  transient?: boolean;
  retryDelayMs?: number | undefined;
  fieldViolations?: readonly FieldViolation[];
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
    const transient = error.code === Code.Unavailable || refusedAtFirst.has(info.reason);
    const { reason, metadata } = info;
    return new AssayError(reason, error.rawMessage, { code, metadata, transient, ...adviceOf(error), cause: error });
  }
  if (error.metadata.has('grpc-status') || lasting.has(error.code)) {
    const transient = error.code === Code.Unavailable;
    return new AssayError(code, error.rawMessage, { code, transient, cause: error });
  }
  // Without a status of the server's the connection itself failed, whatever code the transport chose for it.
  const { reason, message, ...rest } = readConnectionFailure(error, endpoint);
  return new AssayError(reason, message, { code, ...rest, cause: error });
}

function adviceOf(error: ConnectError): Pick<AssayErrorDetails, 'retryDelayMs' | 'fieldViolations'> {
  const delay = error.findDetails(RetryInfoSchema)[0]?.retryDelay;
  const violations = error.findDetails(BadRequestSchema).flatMap(({ fieldViolations }) => fieldViolations);
  return {
    retryDelayMs: delay === undefined ? undefined : durationMs(delay),
    fieldViolations: violations.map(({ field, description }) => ({ field, description })),
  };
}

/** Limits that refuse before anything is done: waiting and asking again is as safe as for UNAVAILABLE. */
const refusedAtFirst: ReadonlySet<string> = new Set(['RATE_LIMITED', 'REQUEST_QUOTA']);

/** Codes that the transport gives for causes which trying again does not mend. */
const lasting: ReadonlySet<Code> = new Set([
  Code.Unimplemented,
  Code.Unauthenticated,
  Code.PermissionDenied,
  Code.ResourceExhausted,
  Code.DeadlineExceeded,
]);

function codeName(code: Code): string {
  return (Code[code] ?? 'Unknown').replace(/(?<=[a-z])(?=[A-Z])/g, '_').toUpperCase();
}
