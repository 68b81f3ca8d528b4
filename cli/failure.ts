import { AssayError } from '../clients/typescript/index.ts';
import { exitCodes, toErrorExitCode } from './exit-code.ts';

/** A failure in two lines: what happened, and what to type. */
export class Failure extends Error {
  readonly found: string;
  readonly type: string | undefined;
  readonly exitCode: number;
  readonly reason: string;
  readonly metadata: Readonly<Record<string, string>>;
  /** Set where there is nobody left to tell. */
  readonly silent: boolean;

  constructor(found: string, details: FailureDetails = {}) {
    super(found, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = 'Failure';
    this.found = found;
    this.type = details.type;
    this.exitCode = details.exitCode ?? exitCodes.failed;
    this.reason = details.reason ?? 'USAGE';
    this.metadata = details.metadata ?? {};
    this.silent = details.silent ?? false;
  }
}

export interface FailureDetails {
  type?: string | undefined;
  exitCode?: number;
  reason?: string;
  metadata?: Readonly<Record<string, string>>;
  silent?: boolean;
  cause?: unknown;
}

export function usageFailure(found: string, type?: string): Failure {
  return new Failure(found, { type, exitCode: exitCodes.usage });
}

/** Why our own output could not be written. A reader that is gone, as with `| head`, is no reason to complain. */
export function writeFailure(error: Error | null): Failure {
  if (error !== null && 'code' in error && error.code !== 'EPIPE') {
    return new Failure(`the output could not be written: ${error.message}`, { reason: 'OUTPUT_FAILED', cause: error });
  }
  return new Failure('the reader of the output went away', {
    exitCode: exitCodes.brokenPipe,
    reason: 'BROKEN_PIPE',
    silent: true,
  });
}

export function toFailure(error: unknown): Failure {
  if (error instanceof Failure) return error;
  if (!(error instanceof AssayError)) {
    return new Failure(error instanceof Error ? (error.stack ?? error.message) : String(error), { reason: 'INTERNAL' });
  }
  const { reason, metadata } = error;
  // What the server says to type knows more than we do.
  const [message = '', type] = error.message.split('; type: ', 2);
  return new Failure(message, {
    type: (type ?? advice[reason])?.replace('<scope>', metadata.scope ?? '<scope>'),
    exitCode: toErrorExitCode(error),
    reason,
    metadata,
    cause: error,
  });
}

/** What to type next, for the failures where that is known. */
const advice: Readonly<Record<string, string>> = {
  SERVER_UNREACHABLE: 'npm start, or ASSAY_ENDPOINT=http://host:port assay …',
  CONNECTION_LOST: 'assay doctor',
  CERTIFICATE_NOT_TRUSTED: 'NODE_EXTRA_CA_CERTS=authority.pem assay …',
  WRONG_PROTOCOL: 'ASSAY_ENDPOINT=http://host:port assay …, or https:// where there is TLS',
  UNIMPLEMENTED: 'ASSAY_ENDPOINT=http://host:port assay …, with the address of an Assay server',
  UNAUTHENTICATED: 'ASSAY_API_KEY=assay_… assay …',
  SCOPE_MISSING: 'assay keys create --scope <scope>, with an admin key; then ASSAY_API_KEY=assay_… assay …',
  SESSION_NOT_FOUND: 'assay sessions ls',
  SESSION_ENDED: 'assay sessions create',
  EXECUTION_NOT_FOUND: 'assay logs <session>',
  SHELL_NOT_FOUND: 'assay shells ls <session>, or assay shells open <session>',
  DATASET_NOT_FOUND: 'assay samples ls, or assay run -- <command> where it is none',
  SAMPLE_NOT_FOUND: 'assay samples ls',
  IMAGE_BUILD_FAILED: 'assay samples build <dataset>/<sample>, to see all that is printed',
  SESSION_QUOTA: 'assay sessions ls, then assay sessions close <session>',
  NO_CAPACITY: 'assay sessions ls, then assay sessions close <session>',
  CAPACITY_SHARE: 'assay sessions ls, then assay sessions close <session>',
  NO_WORKER: 'assay doctor',
  WORKER_UNREACHABLE: 'assay doctor',
  STORE_UNAVAILABLE: 'assay doctor',
  KEY_NOT_FOUND: 'assay keys ls',
  WORKER_NOT_FOUND: 'assay workers ls',
  NO_SAMPLE: 'assay run <dataset>/<sample>',
};
