import type { ClientHttp2Stream } from 'node:http2';
import { fromBinary, toBinary } from '@bufbuild/protobuf';
import {
  type AttachRequest,
  AttachRequestSchema,
  type ExecuteRequest,
  ExecuteRequestSchema,
} from '../../../gen/assay/v1/execution_pb.js';
import { type ExecuteManyRest, WorkerService } from '../../../gen/assay/worker/v1/worker_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { Limits } from '../config.ts';
import { explainError } from '../session/explain-error.ts';
import type { SessionDirectory } from '../session/session-directory.ts';
import { makeExecutionId } from '../session/session-id.ts';
import { checkAttachRequest, checkExecuteRequest } from '../validation/execution-request.ts';
import { invalid } from '../validation/field.ts';
import type { CallReader, SharedStreams } from '../worker/shared-stream.ts';
import type { WorkerClient } from '../worker/worker-client.ts';
import type { ExecutionTarget } from './execution-target.ts';

/** A stream of a worker, with the names that an error about it needs. */
export interface WorkerStream {
  readonly stream: ClientHttp2Stream;
  readonly address: string;
  readonly sessionId: string;
  readonly executionId: string;
}

/** A worker's stream of one execution. */
export interface ExecutionStream extends WorkerStream {
  /** What an error of the worker is to be told as. */
  explain(error: unknown): Promise<unknown>;
}

/** An execution that shares a worker's stream with others. */
export interface SharedExecution extends Omit<ExecutionStream, 'stream'> {
  /** Sends the request. Resolves with how to leave. */
  begin(reader: CallReader): Promise<() => void>;
  /** Opens a stream of its own for what is left. */
  attach(rest: ExecuteManyRest): Promise<ExecutionStream>;
}

/** Opens streams on the session's worker: the way of both Execute and Attach, whatever protocol the client speaks. */
export interface ExecutionStreams {
  /** `message` is the request as it came; `traceparent` goes along for the worker's part of the trace. */
  share(
    project: string,
    request: ExecuteRequest,
    message: Uint8Array,
    traceparent: string | undefined,
  ): Promise<SharedExecution>;
  execute(project: string, request: ExecuteRequest, traceparent: string | undefined): Promise<ExecutionStream>;
  attach(project: string, request: AttachRequest): Promise<ExecutionStream>;
}

export interface ExecutionStreamsDeps {
  readonly sessions: SessionDirectory;
  readonly target: ExecutionTarget;
  readonly client: WorkerClient;
  readonly shared: SharedStreams;
  readonly limits: Limits;
}

export function createExecutionStreams(deps: ExecutionStreamsDeps): ExecutionStreams {
  const { target, client, shared, limits } = deps;
  const { execute, attach } = WorkerService.method;
  const explaining = (project: string, sessionId: string) => (error: unknown) =>
    explainError(deps.sessions, project, sessionId, error);
  return {
    async share(project, given, message, traceparent) {
      checkExecuteRequest(given, limits);
      const { sessionId } = given;
      const executionId = given.executionId || makeExecutionId();
      const named = given.executionId === '' ? toBinary(ExecuteRequestSchema, { ...given, executionId }) : message;
      const address = await target(project, sessionId);
      const explain = explaining(project, sessionId);
      return {
        address,
        sessionId,
        executionId,
        explain,
        begin: (reader) => shared.execute(address, named, traceparent, reader),
        async attach({ stdoutOffset, stderrOffset }) {
          const request = { sessionId, executionId, stdoutOffset, stderrOffset };
          const stream = await client.openStream(address, attach, { request, resumed: true });
          return { stream, address, sessionId, executionId, explain };
        },
      };
    },
    async execute(project, given, traceparent) {
      checkExecuteRequest(given, limits);
      const request = given.executionId === '' ? { ...given, executionId: makeExecutionId() } : given;
      const { sessionId, executionId } = request;
      const address = await target(project, sessionId);
      const stream = await client.openStream(address, execute, { request }, traceparent);
      return { stream, address, sessionId, executionId, explain: explaining(project, sessionId) };
    },
    async attach(project, request) {
      checkAttachRequest(request);
      const { sessionId, executionId } = request;
      const address = await target(project, sessionId);
      const stream = await client.openStream(address, attach, { request });
      return { stream, address, sessionId, executionId, explain: explaining(project, sessionId) };
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
export function brokenStream(of: Omit<WorkerStream, 'stream'>, cause: unknown): DomainError {
  const { address, sessionId, executionId } = of;
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
