import type { Readable } from 'node:stream';
import { Code, ConnectError } from '@connectrpc/connect';
import { grpcPrefixBytes } from '../../shared/grpc-frame.ts';
import type { Caller } from '../auth/caller.ts';
import type { Peer } from '../auth/peer.ts';
import type { GatedCall } from '../rpc/gated-call.ts';
import { type RequestBodies, type RequestBody, requestTimeout } from '../rpc/request-body.ts';
import { requestTooLong } from '../validation/field.ts';

export interface CallBodyDeps {
  readonly call: GatedCall;
  readonly bodies: RequestBodies;
  readonly peer: Peer;
  /** Whether each message has its length before it. */
  readonly framed: boolean;
  /** Whether the call has one answer: its request is held until that is there, and may wait for long. */
  readonly unary: boolean;
}

type Chunks = AsyncGenerator<Uint8Array>;

/** The body of a call with one request. Nothing is read of it before the call is let in, and all has to come in time. */
export async function* readOneMessage(request: Readable, deps: CallBodyDeps): Chunks {
  const body = await admittedBody(deps);
  const prefix = deps.framed ? grpcPrefixBytes : 0;
  const meter = createEnvelopeMeter(body);
  let bytes = 0;
  try {
    for await (const chunk of timely(request, body, () => true)) {
      bytes += chunk.length;
      if (bytes > body.limitBytes + prefix) throw requestTooLong(bytes - prefix, body.limitBytes);
      // The announced length says it before the bytes are there.
      if (deps.framed) meter.push(chunk);
      body.hold(bytes);
      yield chunk;
    }
  } catch (error) {
    throw deps.call.refuse(error);
  } finally {
    if (!deps.unary) body.hold(0);
  }
}

/** The body of a call with many requests: each has to come in time once it has begun. */
export async function* readManyMessages(request: Readable, deps: CallBodyDeps): Chunks {
  const body = await admittedBody(deps);
  const meter = createEnvelopeMeter(body);
  try {
    for await (const chunk of timely(request, body, () => meter.pending > 0)) {
      meter.push(chunk);
      body.hold(meter.pending);
      yield chunk;
    }
  } catch (error) {
    throw deps.call.refuse(error);
  } finally {
    body.hold(0);
  }
}

async function admittedBody({ call, bodies, peer }: CallBodyDeps): Promise<RequestBody> {
  const caller: Caller | undefined = await call.admitted;
  const body = bodies.open(caller, peer.address);
  // Whoever reads the body may never come back to it.
  call.onOver(body.close);
  return body;
}

/** What comes, until something that has begun takes too long. The request outlives it: its answer still has to leave. */
async function* timely(request: Readable, body: RequestBody, begun: () => boolean): Chunks {
  const chunks: Uint8Array[] = [];
  let ended = false;
  let failure: Error | undefined;
  let wake = (): void => {};
  let timer: NodeJS.Timeout | undefined;
  const onData = (chunk: Uint8Array): void => {
    chunks.push(chunk);
    request.pause();
    wake();
  };
  const onEnd = (): void => {
    ended = true;
    wake();
  };
  const fail = (error: Error): void => {
    failure ??= error;
    wake();
  };
  const onClose = (): void => fail(new ConnectError('the request was cut off', Code.Canceled));
  request.on('data', onData).once('end', onEnd).once('close', onClose);
  if (request.destroyed) onClose();
  try {
    for (;;) {
      for (let chunk = chunks.shift(); chunk !== undefined; chunk = chunks.shift()) yield chunk;
      if (ended) return;
      if (failure !== undefined) throw failure;
      if (begun()) timer ??= setTimeout(() => fail(requestTimeout(body)), body.withinMs);
      else {
        clearTimeout(timer);
        timer = undefined;
      }
      request.resume();
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  } finally {
    clearTimeout(timer);
    request.off('data', onData).off('end', onEnd).off('close', onClose);
  }
}

/** Follows the messages of a body by the lengths before them. Throws for one that is announced too long. */
function createEnvelopeMeter({ limitBytes }: RequestBody): { readonly pending: number; push(chunk: Uint8Array): void } {
  const prefix = Buffer.alloc(grpcPrefixBytes);
  let filled = 0;
  let missing = 0;
  let pending = 0;
  return {
    get pending() {
      return pending;
    },
    push(chunk) {
      for (let at = 0; at < chunk.length; ) {
        if (filled < grpcPrefixBytes) {
          prefix[filled++] = chunk[at++] as number;
          pending += 1;
          if (filled === grpcPrefixBytes) missing = prefix.readUInt32BE(1);
          if (missing > limitBytes) throw requestTooLong(missing, limitBytes);
        } else {
          const taken = Math.min(missing, chunk.length - at);
          at += taken;
          missing -= taken;
          pending += taken;
        }
        if (filled < grpcPrefixBytes || missing > 0) continue;
        filled = 0;
        pending = 0;
      }
    },
  };
}
