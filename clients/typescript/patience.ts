import { setTimeout as delay } from 'node:timers/promises';
import { AssayError } from './assay-error.ts';

const firstDelayMs = 50;
const longestDelayMs = 1000;

export interface PatienceOptions {
  /** Who is waited for. */
  endpoint: string;
  /** How long to go on after something that worked stops working. */
  reconnectTimeoutMs: number;
  /** How long to go on while no server has answered this client yet: a wrong endpoint should be told soon. */
  connectTimeoutMs: number;
}

/** Shared by all calls of a client. */
export interface Acquaintance {
  /** Whether a server has ever answered. */
  met: boolean;
  /** Whether the client was closed, which ends all patience. */
  closed: boolean;
}

/** Decides how long a call is tried again. One for each call or stream. */
export interface Patience {
  /** A server answered: the next failure is a new one. */
  answered(): void;
  /** Something new came of it, so the next try need not wait long. */
  progressed(): void;
  /** Waits until it is time to try again, or throws the failure when it has lasted too long or will not pass. */
  wait(failure: AssayError, signal?: AbortSignal): Promise<void>;
}

export function createPatience(options: PatienceOptions, acquaintance: Acquaintance): Patience {
  let failingSince: number | undefined;
  let delayMs = firstDelayMs;
  return {
    answered() {
      acquaintance.met = true;
      failingSince = undefined;
    },
    progressed() {
      delayMs = firstDelayMs;
    },
    async wait(failure, signal) {
      refuseClosed(acquaintance);
      if (!failure.transient) throw failure;
      const now = performance.now();
      failingSince ??= now;
      const limitMs = acquaintance.met ? options.reconnectTimeoutMs : options.connectTimeoutMs;
      const leftMs = failingSince + limitMs - now;
      const leastMs = failure.retryDelayMs ?? 0;
      // Asking earlier than the server allows would be refused again, so a delay past the limit is a failure now.
      if (leftMs <= 0 || leastMs > leftMs) throw acquaintance.met ? failure : suspect(failure, options.endpoint);
      // Jitter, so that the clients of a server that comes back do not all return at once.
      const pauseMs = Math.min(leastMs + delayMs * (0.5 + Math.random() / 2), leftMs);
      delayMs = Math.min(delayMs * 2, longestDelayMs);
      await delay(pauseMs, undefined, signal === undefined ? {} : { signal }).catch(() => {
        throw new AssayError('DETACHED', 'the caller stopped waiting', { code: 'CANCELED', cause: failure });
      });
      refuseClosed(acquaintance);
    },
  };
}

/** What accepts connections and breaks them all is most likely another server than was meant. */
function suspect(failure: AssayError, endpoint: string): AssayError {
  if (failure.reason !== 'CONNECTION_LOST') return failure;
  const { code, message, cause } = failure;
  const guess = endpoint.startsWith('https:')
    ? 'with TLS nothing answers there: the address may begin with http://'
    : 'without TLS no gRPC is spoken there: the address may begin with https://, or be of something else';
  return new AssayError('WRONG_PROTOCOL', `${message}; ${guess}`, { code, cause });
}

export function refuseClosed(acquaintance: Acquaintance): void {
  if (acquaintance.closed) throw new AssayError('CLIENT_CLOSED', 'the client was closed', { code: 'CANCELED' });
}
