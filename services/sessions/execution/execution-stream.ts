import type { ClientHttp2Stream } from 'node:http2';
import { fromBinary } from '@bufbuild/protobuf';
import {
  type AttachRequest,
  AttachRequestSchema,
  type ExecuteRequest,
  ExecuteRequestSchema,
} from '../../../gen/assay/v1/execution_pb.js';
import { WorkerService } from '../../../gen/assay/worker/v1/worker_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { Limits } from '../config.ts';
import { makeExecutionId } from '../session/session-id.ts';
import { checkAttachRequest, checkExecuteRequest } from '../validation/execution-request.ts';
import { invalid } from '../validation/field.ts';
import type { WorkerClient } from '../worker/worker-client.ts';
import type { ExecutionTarget } from './execution-target.ts';

/** A worker's stream of one execution, with the names that an error about it needs. */
export interface ExecutionStream {
  readonly stream: ClientHttp2Stream;
  readonly address: string;
  readonly sessionId: string;
  readonly executionId: string;
}

/** Opens streams on the session's worker: the way of both Execute and Attach, whatever protocol the client speaks. */
export interface ExecutionStreams {
  /** `traceparent` goes along for the worker's part of the trace. */
  execute(project: string, request: ExecuteRequest, traceparent: string | undefined): Promise<ExecutionStream>;
  attach(project: string, request: AttachRequest): Promise<ExecutionStream>;
}

export interface ExecutionStreamsDeps {
  readonly target: ExecutionTarget;
  readonly client: WorkerClient;
  readonly limits: Limits;
}

export function createExecutionStreams({ target, client, limits }: ExecutionStreamsDeps): ExecutionStreams {
  const { execute, attach } = WorkerService.method;
  return {
    async execute(project, given, traceparent) {
      checkExecuteRequest(given, limits);
      const request = given.executionId === '' ? { ...given, executionId: makeExecutionId() } : given;
      const { sessionId, executionId } = request;
      const address = await target(project, sessionId);
      const stream = await client.openStream(address, execute, { request }, traceparent);
      return { stream, address, sessionId, executionId };
    },
    async attach(project, request) {
      checkAttachRequest(request);
      const { sessionId, executionId } = request;
      const address = await target(project, sessionId);
      const stream = await client.openStream(address, attach, { request });
      return { stream, address, sessionId, executionId };
    },
  };
}

export function decodeExecuteRequest(bytes: Uint8Array): ExecuteRequest {
  return decoded(() => fromBinary(ExecuteRequestSchema, bytes));
}

export function decodeAttachRequest(bytes: Uint8Array): AttachRequest {
  return decoded(() => fromBinary(AttachRequestSchema, bytes));
}

/** The connection to the worker broke while the stream was open. The execution itself goes on. */
export function brokenStream({ address, sessionId, executionId }: ExecutionStream, cause: unknown): DomainError {
  const said = cause instanceof Error ? cause.message : String(cause);
  const message = `the connection to the worker at ${address} broke (${said}); attach again from the offsets you have`;
  const metadata = { session_id: sessionId, execution_id: executionId };
  return new DomainError('WORKER_UNREACHABLE', message, metadata, { cause });
}

function decoded<T>(decode: () => T): T {
  try {
    return decode();
  } catch (error) {
    throw invalid('request', `cannot be read: ${(error as Error).message}`, 'a message of this method');
  }
}
