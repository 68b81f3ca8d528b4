import { AssayError, toAssayError } from './assay-error.ts';
import { type Acquaintance, createPatience, type Patience, type PatienceOptions, refuseClosed } from './patience.ts';

/** Makes unary calls that survive the restart of a server. */
export interface Caller {
  readonly endpoint: string;
  /** For a call that may arrive twice: tried again for as long as the client's patience lasts. */
  repeatable<T>(call: () => Promise<T>): Promise<T>;
  /** For a call that must not arrive twice: tried again only if it certainly was not sent. */
  once<T>(call: () => Promise<T>): Promise<T>;
  /** The same patience for a stream. */
  patience(): Patience;
  /** Ends every wait; no call is made from here on. */
  close(): void;
}

export function createCaller(options: PatienceOptions): Caller {
  const { endpoint } = options;
  const acquaintance: Acquaintance = { met: false, closed: false };

  async function attempt<T>(call: () => Promise<T>, mayRepeat: (failure: AssayError) => boolean): Promise<T> {
    const patience = createPatience(options, acquaintance);
    for (;;) {
      refuseClosed(acquaintance);
      try {
        const answer = await call();
        patience.answered();
        return answer;
      } catch (error) {
        const failure = toAssayError(error, endpoint);
        refuseClosed(acquaintance);
        if (!mayRepeat(failure)) throw failure;
        await patience.wait(failure);
      }
    }
  }

  return {
    endpoint,
    repeatable: (call) => attempt(call, (failure) => failure.transient),
    once: (call) => attempt(call, (failure) => failure.unsent || failure.reason === 'RATE_LIMITED'),
    patience: () => createPatience(options, acquaintance),
    close: () => {
      acquaintance.closed = true;
    },
  };
}

/** A field that a response of this server always has. */
export function present<T>(value: T | undefined, name: string): T {
  if (value !== undefined) return value;
  throw new AssayError('INTERNAL', `the server's answer lacks ${name}; client and server may differ in version`);
}
