import { Code } from '@connectrpc/connect';

/**
 * Every reason an Assay service can refuse for, with the gRPC code it travels under.
 * Clients match on the reason; the compiler demands a row for each.
 */
const codes = {
  UNAUTHENTICATED: Code.Unauthenticated,
  SCOPE_MISSING: Code.PermissionDenied,
  INVALID_FIELD: Code.InvalidArgument,
  LIMIT_EXCEEDED: Code.InvalidArgument,
  COMPRESSION_NOT_OFFERED: Code.Unimplemented,
  INVALID_PAGE_TOKEN: Code.InvalidArgument,
  INVALID_CURSOR: Code.InvalidArgument,
  TRANSCRIPT_NOT_FOUND: Code.NotFound,
  REQUEST_ID_REUSED: Code.AlreadyExists,
  SESSION_NOT_FOUND: Code.NotFound,
  SESSION_NOT_READY: Code.FailedPrecondition,
  SESSION_ENDED: Code.FailedPrecondition,
  SESSION_FAILED: Code.Aborted,
  SESSION_UNREACHABLE: Code.Unavailable,
  NETWORK_NOT_OFFERED: Code.FailedPrecondition,
  FORK_NOT_OFFERED: Code.FailedPrecondition,
  IMAGE_NOT_FOUND: Code.NotFound,
  IMAGE_NOT_ALLOWED: Code.FailedPrecondition,
  IMAGE_BUILD_FAILED: Code.FailedPrecondition,
  DATASET_NOT_FOUND: Code.NotFound,
  SAMPLE_NOT_FOUND: Code.NotFound,
  SAMPLE_CHANGED: Code.Aborted,
  NO_SAMPLE: Code.FailedPrecondition,
  ASSURANCE_NOT_REACHED: Code.FailedPrecondition,
  VERIFICATION_NOT_FOUND: Code.NotFound,
  VERIFICATION_NOT_OFFERED: Code.FailedPrecondition,
  SUBMISSION_NOT_FOUND: Code.NotFound,
  GRADED_IN_PLACE: Code.FailedPrecondition,
  KEY_NOT_FOUND: Code.NotFound,
  EXECUTION_NOT_FOUND: Code.NotFound,
  EXECUTION_ID_REUSED: Code.AlreadyExists,
  EXECUTION_ENDED: Code.FailedPrecondition,
  EXECUTION_NOT_RUNNING: Code.FailedPrecondition,
  SHELL_NOT_FOUND: Code.NotFound,
  SHELL_ID_REUSED: Code.AlreadyExists,
  SHELL_CLOSED: Code.FailedPrecondition,
  PROGRAM_NOT_STARTED: Code.FailedPrecondition,
  INPUT_NOT_OPEN: Code.FailedPrecondition,
  NO_TERMINAL: Code.FailedPrecondition,
  INPUT_OFFSET: Code.OutOfRange,
  SESSION_QUOTA: Code.ResourceExhausted,
  KEY_QUOTA: Code.ResourceExhausted,
  VERIFICATION_QUOTA: Code.ResourceExhausted,
  BUILD_QUOTA: Code.ResourceExhausted,
  VALIDATION_QUOTA: Code.ResourceExhausted,
  EXECUTION_QUOTA: Code.ResourceExhausted,
  SHELL_QUOTA: Code.ResourceExhausted,
  SHELL_QUEUE_FULL: Code.ResourceExhausted,
  RATE_LIMITED: Code.ResourceExhausted,
  STREAM_QUOTA: Code.ResourceExhausted,
  CALL_QUOTA: Code.ResourceExhausted,
  CONNECTION_QUOTA: Code.Unavailable,
  REQUEST_QUOTA: Code.ResourceExhausted,
  REQUEST_TIMEOUT: Code.DeadlineExceeded,
  NO_CAPACITY: Code.ResourceExhausted,
  CAPACITY_SHARE: Code.ResourceExhausted,
  HOST_FULL: Code.ResourceExhausted,
  NO_WORKER: Code.Unavailable,
  WORKER_NOT_FOUND: Code.NotFound,
  WORKER_ALIVE: Code.FailedPrecondition,
  WORKER_FORGOTTEN: Code.FailedPrecondition,
  WORKER_UNREACHABLE: Code.Unavailable,
  STORE_UNAVAILABLE: Code.Unavailable,
  STORE_FULL: Code.ResourceExhausted,
  SHUTTING_DOWN: Code.Unavailable,
  DEADLINE_EXCEEDED: Code.DeadlineExceeded,
  SANDBOX_LOST: Code.Aborted,
  ENGINE_FAILED: Code.Internal,
  INTERNAL: Code.Internal,
} as const;

/** The stable word of an error. */
export type Reason = keyof typeof codes;

/** The one error type of both services. The message says what was found, what was expected and what to do. */
export class DomainError extends Error {
  readonly reason: Reason;
  readonly metadata: Readonly<Record<string, string>>;

  constructor(
    reason: Reason,
    message: string,
    metadata: Readonly<Record<string, string>> = {},
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.name = 'DomainError';
    this.reason = reason;
    this.metadata = metadata;
  }

  get code(): Code {
    return codes[this.reason];
  }
}

export function isReason(word: string): word is Reason {
  return Object.hasOwn(codes, word);
}
