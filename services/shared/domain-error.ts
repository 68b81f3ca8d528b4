import type { Code } from '@connectrpc/connect';
import { type Reason, type ReasonMetadata, reasons } from './error-reason.ts';

/**
 * The one error type of both services. The message says what was found, what was expected and what to do. The compiler
 * allows the metadata that the row of the reason names, which is what errors.proto tells clients to expect.
 */
export class DomainError<R extends Reason = Reason> extends Error {
  readonly reason: R;
  readonly metadata: Readonly<Record<string, string>>;

  constructor(reason: R, message: string, metadata?: ReasonMetadata<R>, options?: ErrorOptions) {
    super(message, options);
    this.name = 'DomainError';
    this.reason = reason;
    this.metadata = (metadata ?? {}) as Readonly<Record<string, string>>;
  }

  get code(): Code {
    return reasons[this.reason].code;
  }
}
