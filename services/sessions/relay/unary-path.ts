import type { IncomingHttpHeaders, ServerHttp2Stream } from 'node:http2';
import { create, type DescMessage, type DescMethodUnary, type DescService, toBinary } from '@bufbuild/protobuf';
import { createContextValues, createHandlerContext, type MethodImpl, type ServiceImpl } from '@connectrpc/connect';
import { grpcFrame } from '../../shared/grpc-frame.ts';
import type { WorkShares } from '../../shared/work-shares.ts';
import type { Admission } from '../auth/admission.ts';
import { callerKey } from '../auth/caller.ts';
import type { CallLimits } from '../rpc/call-limits.ts';
import type { CallRecord, CallRecords } from '../rpc/call-record.ts';
import { peerKey } from '../rpc/peer.ts';
import type { RequestBodies } from '../rpc/request-body.ts';
import { traceparentKey } from '../rpc/trace.ts';
import { decodeRequest } from '../validation/message.ts';
import { admit, type Called, capped, follow, isPlainGrpc, recordOf } from './call-life.ts';
import { createGrpcCall, type GrpcCall } from './grpc-call.ts';

/** Calls with one request and one answer over gRPC, beside the framework, which takes a millisecond of a call that is made now and then. */
export interface UnaryPath {
  takes(headers: IncomingHttpHeaders): boolean;
  serve(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void;
}

export interface UnaryPathDeps {
  readonly admission: Admission;
  readonly records: CallRecords;
  readonly services: readonly Served[];
  readonly bodies: RequestBodies;
  readonly callLimits: CallLimits;
  readonly shares: WorkShares;
  /** Aborted when the server stops. */
  readonly shutdownSignal: AbortSignal;
}

/** A service and what implements it. */
export interface Served {
  readonly service: DescService;
  readonly handlers: ServiceImpl<DescService>;
}

/** The compiler sees here, and nowhere else, that the two fit. */
export function serving<Desc extends DescService>(service: Desc, handlers: ServiceImpl<Desc>): Served {
  return { service, handlers: handlers as ServiceImpl<DescService> };
}

type Unary = DescMethodUnary<DescMessage, DescMessage>;
type Handle = MethodImpl<Unary>;

const ok = { 'grpc-status': '0' };

export function createUnaryPath(deps: UnaryPathDeps): UnaryPath {
  const { admission, records, bodies, shutdownSignal, shares } = deps;
  const methods = new Map<string, { method: Unary; handle: Handle }>();
  for (const { service, handlers } of deps.services) {
    for (const method of service.methods) {
      const handle = (handlers as Record<string, Handle>)[method.localName];
      if (method.methodKind !== 'unary' || handle === undefined) continue;
      methods.set(`/${service.typeName}/${method.name}`, { method: method as Unary, handle: handle.bind(handlers) });
    }
  }

  /** What a handler may ask of its call. */
  function contextOf(method: Unary, call: GrpcCall, { caller, peer }: Called, record: CallRecord) {
    const gone = new AbortController();
    const abort = (): void => gone.abort();
    call.stream.once('close', abort);
    call.onOver(abort);
    const contextValues = createContextValues().set(callerKey, caller).set(peerKey, peer);
    if (record.traceparent !== undefined) contextValues.set(traceparentKey, record.traceparent);
    return createHandlerContext({
      ...{ service: method.parent, method, protocolName: 'grpc', requestMethod: 'POST', url: '' },
      ...(call.timeoutMs === undefined ? {} : { timeoutMs: capped(call.timeoutMs) }),
      ...{ shutdownSignal, requestSignal: gone.signal, contextValues },
    });
  }

  return {
    takes: (headers) => methods.has(headers[':path'] ?? '') && isPlainGrpc(headers),
    serve(stream, headers) {
      const { method, handle } = methods.get(headers[':path'] ?? '') as { method: Unary; handle: Handle };
      const record = recordOf(records, headers, false);
      const call = createGrpcCall(stream, headers, record.requestId);
      const serve = async (): Promise<typeof ok | undefined> => {
        const called = await admit(admission, call, record, headers, undefined);
        await shares.turn(called.caller.project);
        const body = bodies.open(called.caller, called.peer.address);
        const message = await call.readMessage(body);
        // The bytes are here until the answer is: input may wait for its program for long.
        body.hold(message.length);
        try {
          return await answer(message, called);
        } finally {
          body.close();
        }
      };
      const answer = async (message: Buffer, called: Called): Promise<typeof ok | undefined> => {
        const turn = shares.turn(called.caller.project, message.length);
        if (turn !== undefined) await turn;
        // Whoever left while the call waited is told nothing, and a handler would never hear that nobody waits.
        if (call.over || stream.destroyed) return undefined;
        const request = decodeRequest(method.input, message);
        if ('sessionId' in request) record.about({ sessionId: String(request.sessionId) });
        const context = contextOf(method, call, called, record);
        try {
          const response = await handle(request, context);
          if (call.over || stream.destroyed) return undefined;
          call.begin();
          call.write(grpcFrame(toBinary(method.output, create(method.output, response))));
          return ok;
        } finally {
          context.abort();
        }
      };
      follow(call, record, serve, deps.callLimits(method));
    },
  };
}
