import { DomainError } from '../../shared/domain-error.ts';
import type { Limits } from '../config.ts';
import type { Authenticator } from './authenticator.ts';
import type { Caller } from './caller.ts';
import { createRate, type Rate } from './rate.ts';

/** A call that was let in. `release` gives its stream back; calling it again does nothing. */
export interface Admitted {
  readonly caller: Caller | undefined;
  release(): void;
}

export interface Arrival {
  readonly method: string;
  readonly authorization: string | undefined;
  /** Where the call comes from, to bound what callers without a good key can cost. */
  readonly peer: string;
  readonly streaming: boolean;
}

/** Lets calls in: a good key with the scope, at a rate, with a number of streams open at one time. */
export interface Admission {
  admit(arrival: Arrival): Promise<Admitted>;
}

export function createAdmission(authenticator: Authenticator, limits: Limits): Admission {
  const rate = createRate(limits.requestsPerSecond);
  const failures = createRate(limits.denialsPerSecond);
  const openStreams = new Map<string, number>();

  const known = async ({ authorization, method, peer }: Arrival): Promise<Caller | undefined> => {
    try {
      return await authenticator.authenticate(authorization, method);
    } catch (error) {
      if (error instanceof DomainError && error.reason === 'UNAUTHENTICATED') {
        spend(failures, peer, `more than ${limits.denialsPerSecond} calls without a valid key in a second`);
      }
      throw error;
    }
  };
  return {
    async admit(arrival) {
      const caller = await known(arrival);
      if (caller === undefined) return { caller, release() {} };
      const { keyId } = caller;
      const limit = limits.requestsPerSecond;
      spend(rate, keyId, `over the limit of ${limit} requests a second and key (requests_per_second)`);
      if (!arrival.streaming) return { caller, release() {} };
      const open = openStreams.get(keyId) ?? 0;
      if (open >= limits.streamsPerKey) {
        const message = `the key has ${open} open streams, the limit (streams_per_key); close one and try again`;
        throw new DomainError('STREAM_QUOTA', message, { limit: String(limits.streamsPerKey) });
      }
      openStreams.set(keyId, open + 1);
      return { caller, release: once(() => giveBack(openStreams, keyId)) };
    },
  };
}

function spend(rate: Rate, name: string, why: string): void {
  if (!rate.spend(name)) throw new DomainError('RATE_LIMITED', `${why}; wait a second and try again`);
}

function giveBack(open: Map<string, number>, keyId: string): void {
  const left = (open.get(keyId) ?? 1) - 1;
  if (left > 0) open.set(keyId, left);
  else open.delete(keyId);
}

function once(run: () => void): () => void {
  let done = false;
  return () => {
    if (done) return;
    done = true;
    run();
  };
}
