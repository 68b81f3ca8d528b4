import type { IncomingHttpHeaders, ServerHttp2Stream } from 'node:http2';
import { Code } from '@connectrpc/connect';
import { ExecutionService } from '../../../gen/assay/v1/execution_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { Admission } from '../auth/admission.ts';
import {
  decodeAttachRequest,
  decodeExecuteRequest,
  type ExecutionStreams,
  type SharedExecution,
} from '../execution/execution-stream.ts';
import type { OpenManyCalls, Speaker } from '../execution/many-calls.ts';
import { type CallRecord, type CallRecords, deadlineExceeded } from '../rpc/call-record.ts';
import { errorOfStatus } from '../worker/worker-status.ts';
import { createGrpcCall, type GrpcCall } from './grpc-call.ts';
import { relayMany } from './many-relay.ts';
import { relay } from './relay.ts';
import { relayShared } from './shared-relay.ts';

/** Execute, ExecuteMany and Attach over gRPC, beside the framework: the worker's frames go to the client without being decoded. */
export interface HotPath {
  takes(headers: IncomingHttpHeaders): boolean;
  serve(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void;
  /** Ends every open call with this error, and every one that comes later. */
  endAll(error: DomainError): void;
}

export interface HotPathDeps {
  readonly admission: Admission;
  readonly records: CallRecords;
  readonly streams: ExecutionStreams;
  readonly many: OpenManyCalls;
  readonly requestBytes: number;
}

type Serve = (
  call: GrpcCall,
  record: CallRecord,
  project: string,
  speaker: Speaker,
) => Promise<Record<string, string> | undefined>;

export function createHotPath(deps: HotPathDeps): HotPath {
  const { records, streams, requestBytes } = deps;
  const service = ExecutionService.typeName;
  const execute: Serve = async (call, record, project) => {
    const message = await call.readMessage(requestBytes);
    const request = decodeExecuteRequest(message);
    record.about({ sessionId: request.sessionId });
    const execution = await streams.share(project, request, message, record.traceparent);
    return explained(await relayShared(call, execution), execution);
  };
  const many: Serve = (call, _record, _project, speaker) => relayMany(call, deps.many, speaker, requestBytes);
  const attach: Serve = async (call, record, project) => {
    const request = decodeAttachRequest(await call.readMessage(requestBytes));
    record.about({ sessionId: request.sessionId });
    const opened = await streams.attachLine(project, request);
    return explained(await relay(call, opened), opened);
  };
  const serves: ReadonlyMap<string, Serve> = new Map([
    [`/${service}/Execute`, execute],
    [`/${service}/ExecuteMany`, many],
    [`/${service}/Attach`, attach],
  ]);
  const stops = new Set<(error: DomainError) => void>();
  let closed: DomainError | undefined;
  return {
    takes(headers) {
      const type = headers['content-type'];
      const encoding = headers['grpc-encoding'];
      return (
        headers[':method'] === 'POST' &&
        (type === 'application/grpc' || type === 'application/grpc+proto') &&
        (encoding === undefined || encoding === 'identity') &&
        serves.has(headers[':path'] ?? '')
      );
    },
    serve(stream, headers) {
      const path = headers[':path'] ?? '';
      const record = records(path.slice(1), true, {
        requestId: oneOf(headers['x-request-id']),
        traceparent: oneOf(headers.traceparent),
      });
      stream.on('error', () => {});
      const call = createGrpcCall(stream, headers, record.requestId);
      const stop = follow(call, record, () => {
        if (closed !== undefined) throw closed;
        return answer(deps, call, record, headers, serves.get(path) as Serve);
      });
      stops.add(stop);
      stream.once('close', () => stops.delete(stop));
    },
    endAll(error) {
      closed = error;
      for (const stop of [...stops]) stop(error);
    },
  };
}

/** Runs the call to its first end: the worker's status, an error, the deadline, or the client's going. */
function follow(
  call: GrpcCall,
  record: CallRecord,
  run: () => Promise<Record<string, string> | undefined>,
): (error: unknown) => void {
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
  const { timeoutMs } = call;
  const timer = timeoutMs === undefined ? undefined : setTimeout(() => stop(deadlineExceeded()), capped(timeoutMs));
  call.stream.once('close', () => finish(Code.Canceled));
  Promise.try(run).then((status) => {
    if (over || status === undefined) return finish(Code.Canceled);
    call.end(status);
    const code = Number(status['grpc-status']);
    finish(code === 0 ? undefined : (code as Code));
  }, stop);
  return stop;
}

async function answer(
  { admission }: HotPathDeps,
  call: GrpcCall,
  record: CallRecord,
  headers: IncomingHttpHeaders,
  serve: Serve,
): Promise<Record<string, string> | undefined> {
  const peer = call.stream.session?.socket?.remoteAddress ?? '';
  const method = (headers[':path'] ?? '').slice(1);
  const { authorization } = headers;
  const { caller, release } = await admission.admit({ method, authorization, peer, streaming: true });
  call.stream.once('close', release);
  if (call.stream.destroyed) release();
  if (caller === undefined) throw new DomainError('UNAUTHENTICATED', 'this call needs an API key');
  record.about({ project: caller.project, keyId: caller.keyId });
  return serve(call, record, caller.project, { authorization, peer });
}

/** A worker's status goes to the client as it is, unless it means something else. */
async function explained(
  status: Record<string, string> | undefined,
  { explain }: Pick<SharedExecution, 'explain'>,
): Promise<Record<string, string> | undefined> {
  if (Number(status?.['grpc-status']) !== Code.NotFound || status === undefined) return status;
  const error = errorOfStatus(status);
  const meant = await explain(error);
  if (meant !== error) throw meant;
  return status;
}

function oneOf(header: string | string[] | undefined): string | undefined {
  return typeof header === 'string' ? header : undefined;
}

/** Longer than any timer can be: as long as a timer can be. */
function capped(ms: number): number {
  return Math.min(Math.ceil(ms), 2_147_483_647);
}
