import { type Code, type ConnectError, createContextKey } from '@connectrpc/connect';
import type { Admission } from '../auth/admission.ts';
import type { Caller } from '../auth/caller.ts';
import type { Peer } from '../auth/peer.ts';
import type { CallRecord, CallRecords } from './call-record.ts';
import { goneClient, isGoneClient } from './gone-client.ts';

/** A call of the ordinary way. It is let in by its headers, before anything of its body is read. */
export interface GatedCall {
  readonly record: CallRecord;
  /** Who calls; undefined where the method needs no key. Rejects with what travels. */
  readonly admitted: Promise<Caller | undefined>;
  /** Aborted, with what travels, where this server ends the call: its key was revoked, or its time is over. */
  readonly signal: AbortSignal;
  /** Whether the call was understood, or refused by this server. Else the framework refused it. */
  readonly isHeard: boolean;
  /** Notes that the call was understood. */
  hear(): void;
  /** Ends the call from this side. */
  stop(error: unknown): void;
  /** Counts a failure as the call's end, and returns what travels. */
  refuse(error: unknown): ConnectError;
  /** Gives back what the call holds. The first end counts. */
  finish(code: Code | undefined): void;
  /** Calls back when the call has ended, at once if it has already. */
  onOver(listener: () => void): void;
}

/** What is known of a call before its body is read. */
export interface CallHead {
  readonly method: string;
  readonly streaming: boolean;
  readonly header: Headers;
  readonly peer: Peer;
  /** Whether the stream or the connection that the call came on is closed. */
  readonly isClosed: () => boolean;
}

export type OpenGatedCall = (head: CallHead) => GatedCall;

/** Where the interceptor finds the call. */
export const gatedCallKey = createContextKey<GatedCall | undefined>(undefined, { description: 'call' });

export function createCallGate(admission: Admission, records: CallRecords): OpenGatedCall {
  return ({ method, streaming, header, peer, isClosed }) => {
    const traceparent = header.get('traceparent');
    const record = records(method, streaming, { requestId: header.get('x-request-id'), traceparent });
    const ending = new AbortController();
    let release = (): void => {};
    let over = false;
    let heard = false;
    const listeners: (() => void)[] = [];
    let refused: ConnectError | undefined;
    const finish = (code: Code | undefined): void => {
      release();
      if (over) return;
      over = true;
      record.end(code);
      for (const listener of listeners.splice(0)) listener();
    };
    const onOver = (listener: () => void): void => {
      if (over) listener();
      else listeners.push(listener);
    };
    const refuse = (error: unknown): ConnectError => {
      // It passes here twice where the body of a stream fails.
      if (refused !== undefined && error === refused) return refused;
      heard = true;
      refused = record.fail(isGoneClient(error, isClosed) ? goneClient() : error);
      refused.metadata.set('x-request-id', record.requestId);
      finish(refused.code);
      return refused;
    };
    const admit = async (): Promise<Caller | undefined> => {
      const authorization = header.get('authorization') ?? undefined;
      const admitted = await admission.admit({ method, authorization, peer, streaming });
      release = admitted.release;
      if (over) release();
      admitted.onRevoked(stop);
      const { caller } = admitted;
      if (caller !== undefined) record.about({ project: caller.project, keyId: caller.keyId });
      return caller;
    };
    const stop = (error: unknown): void => {
      if (!over) ending.abort(refuse(error));
    };
    const admitted = admit().catch((error) => Promise.reject(refuse(error)));
    // Nobody may come to ask: the framework refuses what is no call at all by itself.
    admitted.catch(() => {});
    const hear = (): void => {
      heard = true;
    };
    return {
      ...{ record, admitted, signal: ending.signal, hear, stop, refuse, finish, onOver },
      get isHeard() {
        return heard;
      },
    };
  };
}
