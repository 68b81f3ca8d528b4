import { DomainError } from '../../shared/domain-error.ts';
import type { Limits } from '../config.ts';
import type { Authenticator } from './authenticator.ts';
import type { Caller } from './caller.ts';
import type { Peer } from './peer.ts';
import { createRate } from './rate.ts';

/** A call that was let in. */
export interface Admitted {
  readonly caller: Caller | undefined;
  /** Gives the place of the call back; calling it again does nothing. */
  release(): void;
  /** Calls back if the key of a stream is revoked before the stream is released. */
  onRevoked(listener: (error: DomainError) => void): void;
}

export interface Arrival {
  readonly method: string;
  readonly authorization: string | undefined;
  readonly peer: Peer;
  readonly streaming: boolean;
}

/** Lets calls in: a good key with the scope, at a rate, with a number of calls and streams open at one time. */
export interface Admission {
  admit(arrival: Arrival): Promise<Admitted>;
}

/** The open streams of one key. */
interface KeyStreams {
  open: number;
  readonly listeners: Set<(error: DomainError) => void>;
  /** Set once the key is revoked. */
  revoked: DomainError | undefined;
  unwatch(): void;
}

export function createAdmission(authenticator: Authenticator, limits: Limits): Admission {
  const rate = createRate(limits.requestsPerSecond);
  /** A project makes keys as it likes, so what a key may do does not bound it. */
  const projectRate = createRate(limits.requestsPerSecondPerProject);
  const projectStreams = createPlacesByName(limits.streamsPerProject);
  const streamsByKey = new Map<string, KeyStreams>();
  const calls = createPlacesByName(limits.callsPerProject);
  const keylessStreams = createPlacesByName(limits.keylessStreamsPerAddress);

  function watched(keyId: string): KeyStreams {
    const streams: KeyStreams = { open: 0, listeners: new Set(), revoked: undefined, unwatch() {} };
    streams.unwatch = authenticator.onRevoked(keyId, (error) => {
      streams.revoked = error;
      for (const listener of [...streams.listeners]) listener(error);
    });
    streamsByKey.set(keyId, streams);
    return streams;
  }

  function forget(keyId: string, streams: KeyStreams): void {
    streams.unwatch();
    streamsByKey.delete(keyId);
  }

  function openStream(caller: Caller): Admitted {
    const { keyId } = caller;
    const streams = streamsByKey.get(keyId) ?? watched(keyId);
    if (streams.open >= limits.streamsPerKey) {
      const message = `the key has ${streams.open} open streams, the limit (ASSAY_LIMIT_STREAMS_PER_KEY); close one and try again`;
      throw new DomainError('STREAM_QUOTA', message, { limit: String(limits.streamsPerKey) });
    }
    const releaseProject = projectStreams.take(caller.project);
    if (releaseProject === undefined) {
      if (streams.open === 0) forget(keyId, streams);
      const limit = limits.streamsPerProject;
      const message = `the project has ${limit} open streams, the limit (ASSAY_LIMIT_STREAMS_PER_PROJECT)`;
      throw new DomainError('STREAM_QUOTA', `${message}; close one and try again`, { limit: String(limit) });
    }
    streams.open += 1;
    let released = false;
    let told: ((error: DomainError) => void) | undefined;
    return {
      caller,
      release() {
        if (released) return;
        released = true;
        if (told !== undefined) streams.listeners.delete(told);
        releaseProject();
        streams.open -= 1;
        if (streams.open === 0) forget(keyId, streams);
      },
      onRevoked(listener) {
        if (released) return;
        told = listener;
        streams.listeners.add(listener);
        if (streams.revoked !== undefined) listener(streams.revoked);
      },
    };
  }

  /** A call with one answer. It may wait for a program or a worker, and holds its request and a place at the worker meanwhile. */
  function openCall(caller: Caller): Admitted {
    const release = calls.take(caller.project);
    if (release !== undefined) return { caller, release, onRevoked() {} };
    const limit = limits.callsPerProject;
    const message = `the project has ${limit} calls under way, the limit (ASSAY_LIMIT_CALLS_PER_PROJECT)`;
    throw new DomainError('CALL_QUOTA', `${message}; wait for one to be answered and try again`, {
      limit: String(limit),
    });
  }

  const spend = (name: string, whose: 'key' | 'address'): void => {
    if (!rate.spend(name)) throw tooFast(limits.requestsPerSecond, whose, 'ASSAY_LIMIT_REQUESTS_PER_SECOND');
  };
  const spendOfProject = (project: string): void => {
    if (projectRate.spend(project)) return;
    throw tooFast(limits.requestsPerSecondPerProject, 'project', 'ASSAY_LIMIT_REQUESTS_PER_SECOND_PER_PROJECT');
  };

  /** A call that needs no key, such as a watch of the health. */
  function admitKeyless(address: string, streaming: boolean): Admitted {
    spend(`address ${address}`, 'address');
    if (!streaming) return { caller: undefined, release() {}, onRevoked() {} };
    const release = keylessStreams.take(address);
    if (release === undefined) {
      const limit = limits.keylessStreamsPerAddress;
      const message = `this address has ${limit} open streams without a key, the limit (ASSAY_LIMIT_KEYLESS_STREAMS_PER_ADDRESS)`;
      throw new DomainError('STREAM_QUOTA', `${message}; close one and try again`, { limit: String(limit) });
    }
    return { caller: undefined, release, onRevoked() {} };
  }

  return {
    async admit({ method, authorization, peer, streaming }) {
      const caller = await authenticator.authenticate(authorization, method, peer.address);
      if (caller === undefined) return admitKeyless(peer.address, streaming);
      peer.prove(caller.project);
      spend(caller.keyId, 'key');
      spendOfProject(caller.project);
      return streaming ? openStream(caller) : openCall(caller);
    },
  };
}

function tooFast(limit: number, whose: 'key' | 'address' | 'project', name: string): DomainError {
  const message = `over the limit of ${limit} requests a second and ${whose} (${name})`;
  return new DomainError('RATE_LIMITED', `${message}; wait a second and try again`, { limit: String(limit) });
}

/** Places for each name, so many at one time. */
interface PlacesByName {
  /** Returns what gives the place back, again doing nothing. Undefined: none is free. */
  take(name: string): (() => void) | undefined;
}

function createPlacesByName(limit: number): PlacesByName {
  const taken = new Map<string, number>();
  return {
    take(name) {
      const open = taken.get(name) ?? 0;
      if (open >= limit) return undefined;
      taken.set(name, open + 1);
      let released = false;
      return () => {
        if (released) return;
        released = true;
        const left = (taken.get(name) ?? 1) - 1;
        if (left > 0) taken.set(name, left);
        else taken.delete(name);
      };
    },
  };
}
