import { Code, type ConnectError, type Interceptor, type StreamResponse } from '@connectrpc/connect';
import type { Admission } from '../auth/admission.ts';
import { callerKey } from '../auth/caller.ts';
import type { CallRecord, CallRecords } from './call-record.ts';
import { peerKey } from './peer.ts';
import { traceparentKey } from './trace.ts';

/** How long a stream whose call is over may take to say how it ended. */
const parkedMs = 1_000;

/** Wraps every call of the ordinary way: request id, admission, errors, metrics and log. */
export function createCallInterceptor(admission: Admission, records: CallRecords): Interceptor {
  return (next) => async (request) => {
    const method = `${request.service.typeName}/${request.method.name}`;
    const record = records(method, request.stream, {
      requestId: request.header.get('x-request-id'),
      traceparent: request.header.get('traceparent'),
    });
    let release = (): void => {};
    let over = false;
    const finish = (code: Code | undefined): void => {
      release();
      if (!over) record.end(code);
      over = true;
    };
    const refuse = (error: unknown): ConnectError => {
      const mapped = record.fail(error);
      mapped.metadata.set('x-request-id', record.requestId);
      finish(mapped.code);
      return mapped;
    };
    try {
      const authorization = request.header.get('authorization') ?? undefined;
      const peer = request.contextValues.get(peerKey);
      const admitted = await admission.admit({ method, authorization, peer, streaming: request.stream });
      release = admitted.release;
      request.contextValues.set(callerKey, admitted.caller);
      if (record.traceparent !== undefined) request.contextValues.set(traceparentKey, record.traceparent);
      describe(record, admitted.caller, request.stream ? undefined : request.message);
      const response = await next(request);
      response.header.set('x-request-id', record.requestId);
      if (response.stream) return { ...response, message: observed(response, request.signal, refuse, finish) };
      finish(undefined);
      return response;
    } catch (error) {
      throw refuse(error);
    }
  };
}

/** An error thrown while a stream runs passes here and nowhere else. */
async function* observed(
  response: StreamResponse,
  signal: AbortSignal,
  refuse: (error: unknown) => ConnectError,
  finish: (code: Code | undefined) => void,
): StreamResponse['message'] & AsyncGenerator {
  // A peer that vanishes may leave this generator parked for ever: its place is given back from the signal.
  const abort = (): void => {
    setTimeout(() => finish(Code.Canceled), parkedMs);
  };
  signal.addEventListener('abort', abort, { once: true });
  try {
    yield* response.message;
    finish(undefined);
  } catch (error) {
    throw refuse(error);
  } finally {
    signal.removeEventListener('abort', abort);
    finish(Code.Canceled);
  }
}

function describe(
  record: CallRecord,
  caller: { keyId: string; project: string } | undefined,
  message: object | undefined,
) {
  if (caller !== undefined) record.about({ project: caller.project, keyId: caller.keyId });
  if (message !== undefined && 'sessionId' in message) record.about({ sessionId: String(message.sessionId) });
}
