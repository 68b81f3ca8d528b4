import type { IncomingHttpHeaders, ServerHttp2Stream } from 'node:http2';
import { Code } from '@connectrpc/connect';
import { AttachRequestSchema, ExecuteRequestSchema, ExecutionService } from '../../../gen/assay/v1/execution_pb.js';
import type { DomainError } from '../../shared/domain-error.ts';
import type { WorkShares } from '../../shared/work-shares.ts';
import type { Admission } from '../auth/admission.ts';
import type { ExecutionStreams, SharedExecution } from '../execution/execution-stream.ts';
import type { OpenManyCalls } from '../execution/many-calls.ts';
import type { CallRecord, CallRecords } from '../rpc/call-record.ts';
import type { RequestBodies, RequestBody } from '../rpc/request-body.ts';
import { decodeRequest } from '../validation/message.ts';
import { errorOfStatus } from '../worker/worker-status.ts';
import { admit, type Called, follow, isPlainGrpc, recordOf } from './call-life.ts';
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
  readonly bodies: RequestBodies;
  readonly shares: WorkShares;
}

type Serve = (call: GrpcCall, record: CallRecord, called: Called) => Promise<Record<string, string> | undefined>;

export function createHotPath(deps: HotPathDeps): HotPath {
  const { admission, records, streams, shares } = deps;
  const service = ExecutionService.typeName;
  const bodyOf = ({ caller, peer }: Called): RequestBody => deps.bodies.open(caller, peer.address);
  const execute: Serve = async (call, record, called) => {
    await shares.turn(called.caller.project);
    const message = await call.readMessage(bodyOf(called));
    await shares.turn(called.caller.project, message.length);
    const request = decodeRequest(ExecuteRequestSchema, message);
    record.about({ sessionId: request.sessionId });
    const execution = await streams.share(called.caller.project, request, message, record.traceparent);
    return explained(await relayShared(call, execution), execution);
  };
  const many: Serve = (call, _record, called) => {
    const { authorization, peer } = called;
    return relayMany(call, deps.many, { authorization, peer }, bodyOf(called));
  };
  const attach: Serve = async (call, record, called) => {
    const request = decodeRequest(AttachRequestSchema, await call.readMessage(bodyOf(called)));
    record.about({ sessionId: request.sessionId });
    const opened = await streams.attachLine(called.caller.project, request);
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
    takes: (headers) => serves.has(headers[':path'] ?? '') && isPlainGrpc(headers),
    serve(stream, headers) {
      const serve = serves.get(headers[':path'] ?? '') as Serve;
      const record = recordOf(records, headers, true);
      stream.on('error', () => {});
      const call = createGrpcCall(stream, headers, record.requestId);
      const end = follow(call, record, async (stop) => {
        if (closed !== undefined) throw closed;
        return serve(call, record, await admit(admission, call, record, headers, stop));
      });
      stops.add(end);
      stream.once('close', () => stops.delete(end));
    },
    endAll(error) {
      closed = error;
      for (const stop of [...stops]) stop(error);
    },
  };
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
