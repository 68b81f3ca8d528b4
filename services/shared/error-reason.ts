import { Code } from '@connectrpc/connect';
import type { ErrorReason } from '../../gen/assay/v1/errors_pb.js';

/** The stable word of an error: the name of a value of assay.v1.ErrorReason. */
export type Reason = Exclude<keyof typeof ErrorReason, 'UNSPECIFIED'>;

interface ReasonRow {
  readonly code: Code;
  /** The least time after which the same call may succeed without any other change. Absent: something else has to change first. */
  readonly retryMs?: number;
  readonly metadata: readonly string[];
}

/** What every reason means on the wire. errors.proto says the same in words, and a test compares the two. */
export const reasons = {
  UNAUTHENTICATED: { code: Code.Unauthenticated, metadata: [] },
  SCOPE_MISSING: { code: Code.PermissionDenied, metadata: ['method', 'scope', 'field'] },
  INVALID_FIELD: { code: Code.InvalidArgument, metadata: ['field', 'limit'] },
  LIMIT_EXCEEDED: { code: Code.InvalidArgument, metadata: ['field', 'limit'] },
  UNREADABLE_REQUEST: { code: Code.InvalidArgument, metadata: ['header'] },
  COMPRESSION_NOT_OFFERED: { code: Code.Unimplemented, metadata: ['header'] },
  INVALID_PAGE_TOKEN: { code: Code.InvalidArgument, metadata: ['field'] },
  INVALID_CURSOR: { code: Code.InvalidArgument, metadata: ['field'] },
  TRANSCRIPT_NOT_FOUND: { code: Code.NotFound, metadata: ['session_id'] },
  REQUEST_ID_REUSED: {
    code: Code.AlreadyExists,
    metadata: ['field', 'request_id', 'session_id', 'verification_id', 'key_id'],
  },
  SESSION_NOT_FOUND: { code: Code.NotFound, metadata: ['session_id'] },
  SESSION_NOT_READY: { code: Code.FailedPrecondition, metadata: ['session_id', 'state'] },
  SESSION_ENDED: { code: Code.FailedPrecondition, metadata: ['session_id', 'state', 'session_reason'] },
  SESSION_FAILED: { code: Code.Aborted, metadata: ['session_id', 'session_reason'] },
  SESSION_UNREACHABLE: { code: Code.Unavailable, retryMs: 500, metadata: ['session_id', 'worker_id'] },
  NETWORK_NOT_OFFERED: { code: Code.FailedPrecondition, metadata: ['field', 'mode'] },
  FORK_NOT_OFFERED: { code: Code.FailedPrecondition, metadata: ['session_id', 'worker_id'] },
  IMAGE_NOT_FOUND: { code: Code.NotFound, metadata: ['image'] },
  IMAGE_NOT_ALLOWED: { code: Code.FailedPrecondition, metadata: ['field', 'image'] },
  IMAGE_BUILD_FAILED: { code: Code.FailedPrecondition, metadata: ['dataset_id', 'sample_id'] },
  DATASET_NOT_FOUND: { code: Code.NotFound, metadata: ['dataset_id'] },
  SAMPLE_NOT_FOUND: { code: Code.NotFound, metadata: ['dataset_id', 'sample_id', 'content_digest'] },
  SAMPLE_CHANGED: { code: Code.Aborted, retryMs: 1_000, metadata: ['content_digest', 'file'] },
  NO_SAMPLE: { code: Code.FailedPrecondition, metadata: ['session_id'] },
  ASSURANCE_NOT_REACHED: { code: Code.FailedPrecondition, metadata: ['field', 'reached'] },
  VERIFICATION_NOT_FOUND: { code: Code.NotFound, metadata: ['verification_id'] },
  VERIFICATION_NOT_OFFERED: { code: Code.FailedPrecondition, metadata: [] },
  SUBMISSION_NOT_FOUND: { code: Code.NotFound, metadata: ['verification_id'] },
  GRADED_IN_PLACE: { code: Code.FailedPrecondition, metadata: ['verification_id', 'session_id'] },
  KEY_NOT_FOUND: { code: Code.NotFound, metadata: ['key_id'] },
  EXECUTION_NOT_FOUND: { code: Code.NotFound, metadata: ['session_id', 'execution_id'] },
  EXECUTION_ID_REUSED: { code: Code.AlreadyExists, metadata: ['session_id', 'execution_id'] },
  EXECUTION_ENDED: { code: Code.FailedPrecondition, metadata: [] },
  EXECUTION_NOT_RUNNING: { code: Code.FailedPrecondition, metadata: [] },
  SHELL_NOT_FOUND: { code: Code.NotFound, metadata: ['session_id', 'shell_id'] },
  SHELL_ID_REUSED: { code: Code.AlreadyExists, metadata: ['shell_id'] },
  SHELL_CLOSED: { code: Code.FailedPrecondition, metadata: ['shell_id'] },
  PROGRAM_NOT_STARTED: { code: Code.FailedPrecondition, metadata: ['step', 'errno', 'exit_code', 'signal'] },
  INPUT_NOT_OPEN: { code: Code.FailedPrecondition, metadata: [] },
  NO_TERMINAL: { code: Code.FailedPrecondition, metadata: [] },
  INPUT_OFFSET: { code: Code.OutOfRange, metadata: ['next_offset'] },
  SESSION_QUOTA: { code: Code.ResourceExhausted, metadata: ['limit'] },
  KEY_QUOTA: { code: Code.ResourceExhausted, metadata: ['limit'] },
  VERIFICATION_QUOTA: { code: Code.ResourceExhausted, retryMs: 5_000, metadata: ['limit'] },
  BUILD_QUOTA: { code: Code.ResourceExhausted, retryMs: 5_000, metadata: ['limit'] },
  VALIDATION_QUOTA: { code: Code.ResourceExhausted, retryMs: 5_000, metadata: ['limit'] },
  EXECUTION_QUOTA: { code: Code.ResourceExhausted, retryMs: 1_000, metadata: ['limit', 'step', 'errno'] },
  SHELL_QUOTA: { code: Code.ResourceExhausted, metadata: ['limit'] },
  SHELL_QUEUE_FULL: { code: Code.ResourceExhausted, retryMs: 1_000, metadata: ['limit'] },
  RATE_LIMITED: { code: Code.ResourceExhausted, retryMs: 1_000, metadata: ['limit'] },
  STREAM_QUOTA: { code: Code.ResourceExhausted, retryMs: 1_000, metadata: ['limit'] },
  CALL_QUOTA: { code: Code.ResourceExhausted, retryMs: 1_000, metadata: ['limit'] },
  CONNECTION_QUOTA: { code: Code.Unavailable, retryMs: 1_000, metadata: ['limit'] },
  REQUEST_QUOTA: { code: Code.ResourceExhausted, retryMs: 1_000, metadata: ['limit'] },
  REQUEST_TIMEOUT: { code: Code.DeadlineExceeded, metadata: ['limit'] },
  NO_CAPACITY: { code: Code.ResourceExhausted, retryMs: 5_000, metadata: ['capacity', 'session_id', 'worker_id'] },
  CAPACITY_SHARE: { code: Code.ResourceExhausted, retryMs: 5_000, metadata: ['capacity', 'limit'] },
  HOST_FULL: { code: Code.ResourceExhausted, retryMs: 5_000, metadata: [] },
  NO_WORKER: { code: Code.Unavailable, retryMs: 1_000, metadata: [] },
  WORKER_NOT_FOUND: { code: Code.NotFound, metadata: ['worker_id'] },
  WORKER_ALIVE: { code: Code.FailedPrecondition, metadata: ['worker_id'] },
  WORKER_FORGOTTEN: { code: Code.FailedPrecondition, metadata: ['worker_id'] },
  WORKER_UNREACHABLE: { code: Code.Unavailable, retryMs: 100, metadata: ['session_id', 'execution_id'] },
  STORE_UNAVAILABLE: { code: Code.Unavailable, retryMs: 200, metadata: [] },
  STORE_FULL: { code: Code.ResourceExhausted, metadata: ['bucket', 'limit'] },
  SHUTTING_DOWN: { code: Code.Unavailable, retryMs: 100, metadata: [] },
  DEADLINE_EXCEEDED: { code: Code.DeadlineExceeded, metadata: ['limit'] },
  SANDBOX_LOST: { code: Code.Aborted, metadata: [] },
  ENGINE_FAILED: { code: Code.Internal, metadata: [] },
  INTERNAL: { code: Code.Internal, metadata: [] },
} as const satisfies Record<Reason, ReasonRow>;

type MetadataKey<R extends Reason> = (typeof reasons)[R]['metadata'][number];

/** The metadata that an error of this reason may carry. */
export type ReasonMetadata<R extends Reason> = Readonly<
  [MetadataKey<R>] extends [never] ? Record<string, never> : Partial<Record<MetadataKey<R>, string>>
>;

export function isReason(word: string): word is Reason {
  return Object.hasOwn(reasons, word);
}

/** Undefined: the reason is not one to try again for. */
export function retryMsOf(reason: Reason): number | undefined {
  const row: ReasonRow = reasons[reason];
  return row.retryMs;
}
