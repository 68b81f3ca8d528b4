import { Code, ConnectError, type Interceptor, type StreamResponse } from '@connectrpc/connect';
import type { WorkShares } from '../../shared/work-shares.ts';
import { callerKey } from '../auth/caller.ts';
import { type CallLimits, callTimeout } from './call-limits.ts';
import { type GatedCall, gatedCallKey } from './gated-call.ts';
import { traceparentKey } from './trace.ts';
import { unreadableMessage } from './unreadable-request.ts';

/** How long a stream whose call is over may take to say how it ended. */
const parkedMs = 1_000;

/** Wraps every call of the ordinary way: who calls, errors, deadline, metrics and log. */
export function createCallInterceptor(callLimits: CallLimits, shares: WorkShares): Interceptor {
  return (next) => async (request) => {
    const call = request.contextValues.get(gatedCallKey);
    if (call === undefined) throw new ConnectError('a call that passed no gate', Code.Internal);
    call.hear();
    const { record } = call;
    const refuse = (error: unknown): ConnectError =>
      call.refuse(call.signal.aborted ? call.signal.reason : (unreadableMessage(error, request.method) ?? error));
    const caller = await call.admitted;
    request.contextValues.set(callerKey, caller);
    if (record.traceparent !== undefined) request.contextValues.set(traceparentKey, record.traceparent);
    if (!request.stream && 'sessionId' in request.message)
      record.about({ sessionId: String(request.message.sessionId) });
    try {
      if (caller !== undefined) await shares.turn(caller.project);
      const response = await (request.stream
        ? next(request)
        : within(callLimits(request.method), call, () => next(request)));
      response.header.set('x-request-id', record.requestId);
      if (response.stream) return { ...response, message: observed(response, request.signal, call, refuse) };
      call.finish(undefined);
      return response;
    } catch (error) {
      throw refuse(error);
    }
  };
}

/** The answer of a call, or its error if that comes too late. */
async function within<T>(ms: number, { signal, stop }: GatedCall, answer: () => Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    stop(callTimeout(ms));
    late.reject(signal.reason);
  }, ms);
  try {
    return await Promise.race([answer(), late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** An error thrown while a stream runs passes here and nowhere else. */
async function* observed(
  response: StreamResponse,
  signal: AbortSignal,
  call: GatedCall,
  refuse: (error: unknown) => ConnectError,
): StreamResponse['message'] & AsyncGenerator {
  // A peer that vanishes may leave this generator parked for ever: its place is given back from the signal.
  const abort = (): void => {
    setTimeout(() => call.finish(Code.Canceled), parkedMs);
  };
  signal.addEventListener('abort', abort, { once: true });
  try {
    yield* response.message;
    call.finish(undefined);
  } catch (error) {
    throw refuse(error);
  } finally {
    signal.removeEventListener('abort', abort);
    call.finish(Code.Canceled);
  }
}
