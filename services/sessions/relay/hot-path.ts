import type { IncomingHttpHeaders, ServerHttp2Stream } from 'node:http2';
import type { Code } from '@connectrpc/connect';
import { Code as Codes } from '@connectrpc/connect';
import { ExecutionService } from '../../../gen/assay/v1/execution_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { Admission } from '../auth/admission.ts';
import {
  decodeAttachRequest,
  decodeExecuteRequest,
  type ExecutionStream,
  type ExecutionStreams,
} from '../execution/execution-stream.ts';
import { type CallRecord, type CallRecords, deadlineExceeded } from '../rpc/call-record.ts';
import { createGrpcCall, type GrpcCall } from './grpc-call.ts';
import { relay } from './relay.ts';

/** Execute and Attach over gRPC, beside the framework: the worker's frames go to the client without being decoded. */
export interface HotPath {
  takes(headers: IncomingHttpHeaders): boolean;
  serve(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void;
  /** Ends every open call with this error. */
  endAll(error: DomainError): void;
}

export interface HotPathDeps {
  readonly admission: Admission;
  readonly records: CallRecords;
  readonly streams: ExecutionStreams;
  readonly requestBytes: number;
}

type Open = (project: string, message: Uint8Array) => Promise<ExecutionStream>;

export function createHotPath({ admission, records, streams, requestBytes }: HotPathDeps): HotPath {
  const service = ExecutionService.typeName;
  const opens: ReadonlyMap<string, Open> = new Map<string, Open>([
    [`/${service}/Execute`, (project, message) => streams.execute(project, decodeExecuteRequest(message))],
    [`/${service}/Attach`, (project, message) => streams.attach(project, decodeAttachRequest(message))],
  ]);
  const open = new Set<(error: DomainError) => void>();

  const run = async (
    call: GrpcCall,
    record: CallRecord,
    headers: IncomingHttpHeaders,
    method: string,
  ): Promise<Record<string, string> | undefined> => {
    const peer = call.stream.session?.socket?.remoteAddress ?? '';
    const { authorization } = headers;
    const { caller, release } = await admission.admit({ method, authorization, peer, streaming: true });
    call.stream.once('close', release);
    if (call.stream.destroyed) release();
    if (caller === undefined) throw new DomainError('UNAUTHENTICATED', 'this call needs an API key');
    record.about({ project: caller.project, keyId: caller.keyId });
    const message = await call.readMessage(requestBytes);
    const opened = await (opens.get(`/${method}`) as Open)(caller.project, message);
    record.about({ sessionId: opened.sessionId });
    return relay(call, opened);
  };

  return {
    takes(headers) {
      const type = headers['content-type'];
      const encoding = headers['grpc-encoding'];
      return (
        headers[':method'] === 'POST' &&
        (type === 'application/grpc' || type === 'application/grpc+proto') &&
        (encoding === undefined || encoding === 'identity') &&
        opens.has(headers[':path'] ?? '')
      );
    },
    serve(stream, headers) {
      const method = (headers[':path'] ?? '').slice(1);
      const requestId = headers['x-request-id'];
      const record = records(method, true, typeof requestId === 'string' ? requestId : undefined);
      const call = createGrpcCall(stream, headers, record.requestId);
      stream.on('error', () => {});
      let over = false;
      const finish = (code: Code | undefined): void => {
        if (over) return;
        over = true;
        open.delete(stop);
        clearTimeout(timer);
        record.end(code);
      };
      const stop = (error: unknown): void => {
        if (over) return;
        const mapped = record.fail(error);
        call.fail(mapped);
        finish(mapped.code);
      };
      open.add(stop);
      const { timeoutMs } = call;
      const timer = timeoutMs === undefined ? undefined : setTimeout(() => stop(deadlineExceeded()), capped(timeoutMs));
      stream.once('close', () => finish(Codes.Canceled));
      run(call, record, headers, method).then((status) => {
        if (over || status === undefined) return finish(Codes.Canceled);
        call.end(status);
        const code = Number(status['grpc-status']);
        finish(code === 0 ? undefined : (code as Code));
      }, stop);
    },
    endAll(error) {
      for (const stop of [...open]) stop(error);
    },
  };
}

/** Longer than any timer can be: as long as a timer can be. */
function capped(ms: number): number {
  return Math.min(Math.ceil(ms), 2_147_483_647);
}
