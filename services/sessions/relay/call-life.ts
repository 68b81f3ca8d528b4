import type { IncomingHttpHeaders } from 'node:http2';
import { Code } from '@connectrpc/connect';
import { DomainError } from '../../shared/domain-error.ts';
import type { Admission } from '../auth/admission.ts';
import type { Caller } from '../auth/caller.ts';
import type { Speaker } from '../execution/many-calls.ts';
import { callTimeout } from '../rpc/call-limits.ts';
import { type CallRecord, type CallRecords, deadlineExceeded } from '../rpc/call-record.ts';
import { peerOf } from '../rpc/peer.ts';
import type { GrpcCall } from './grpc-call.ts';

/** Who calls, and from where. */
export interface Called extends Speaker {
  readonly caller: Caller;
}

/** The name of a call's method, without the slash that its path begins with. */
export function methodOf(headers: IncomingHttpHeaders): string {
  return (headers[':path'] ?? '').slice(1);
}

/** Whether it is gRPC with messages as they are. What is compressed is left to the framework, to refuse. */
export function isPlainGrpc(headers: IncomingHttpHeaders): boolean {
  const type = headers['content-type'];
  const encoding = headers['grpc-encoding'];
  return (
    headers[':method'] === 'POST' &&
    (type === 'application/grpc' || type === 'application/grpc+proto') &&
    (encoding === undefined || encoding === 'identity')
  );
}

export function recordOf(records: CallRecords, headers: IncomingHttpHeaders, streaming: boolean): CallRecord {
  const requestId = oneOf(headers['x-request-id']);
  return records(methodOf(headers), streaming, { requestId, traceparent: oneOf(headers.traceparent) });
}

/** Ends a call with an error. */
export type StopCall = (error: unknown) => void;

/** Runs the call to its first end: the worker's status, an error, the deadline, or the client's going. */
export function follow(
  call: GrpcCall,
  record: CallRecord,
  run: (stop: StopCall) => Promise<Record<string, string> | undefined>,
  limitMs = Number.POSITIVE_INFINITY,
): StopCall {
  let over = false;
  const finish = (code: Code | undefined): void => {
    if (over) return;
    over = true;
    clearTimeout(timer);
    record.end(code);
  };
  const stop = (error: unknown): void => {
    if (over) return;
    const mapped = record.fail(error);
    call.fail(mapped);
    finish(mapped.code);
  };
  const timer = startDeadline(call.timeoutMs ?? Number.POSITIVE_INFINITY, limitMs, stop);
  call.stream.once('close', () => finish(Code.Canceled));
  Promise.try(run, stop).then((status) => {
    if (over || status === undefined) return finish(Code.Canceled);
    call.end(status);
    const code = Number(status['grpc-status']);
    finish(code === 0 ? undefined : (code as Code));
  }, stop);
  return stop;
}

function startDeadline(givenMs: number, limitMs: number, stop: StopCall): NodeJS.Timeout | undefined {
  if (givenMs <= limitMs && givenMs !== Number.POSITIVE_INFINITY)
    return setTimeout(() => stop(deadlineExceeded()), capped(givenMs));
  if (limitMs === Number.POSITIVE_INFINITY) return undefined;
  return setTimeout(() => stop(callTimeout(limitMs)), capped(limitMs));
}

/** Lets the call in, for as long as its stream is open and its key is valid. */
export async function admit(
  admission: Admission,
  call: GrpcCall,
  record: CallRecord,
  headers: IncomingHttpHeaders,
  stop: StopCall | undefined,
): Promise<Called> {
  const { stream } = call;
  const peer = peerOf(stream.session);
  const { authorization } = headers;
  const streaming = stop !== undefined;
  const admitted = await admission.admit({ method: methodOf(headers), authorization, peer, streaming });
  const { caller } = admitted;
  stream.once('close', admitted.release);
  if (stream.destroyed) admitted.release();
  if (caller === undefined) throw new DomainError('UNAUTHENTICATED', 'this call needs an API key');
  call.letIn();
  if (stop !== undefined) admitted.onRevoked(stop);
  record.about({ project: caller.project, keyId: caller.keyId });
  return { caller, authorization, peer };
}

function oneOf(header: string | string[] | undefined): string | undefined {
  return typeof header === 'string' ? header : undefined;
}

/** Longer than any timer can be: as long as a timer can be. */
export function capped(ms: number): number {
  return Math.min(Math.ceil(ms), 2_147_483_647);
}
