import type { ClientHttp2Stream } from 'node:http2';
import { toBinary } from '@bufbuild/protobuf';
import type { ExecuteManyRest } from '../../../gen/assay/internal/v1/worker_pb.js';
import {
  type AttachRequest,
  type ExecuteRequest,
  ExecuteRequestSchema,
  ExecutionService,
} from '../../../gen/assay/v1/execution_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { Limits } from '../config.ts';
import { explainError } from '../session/explain-error.ts';
import type { SessionDirectory } from '../session/session-directory.ts';
import { makeExecutionId } from '../session/session-id.ts';
import { checkAttachRequest, checkExecuteRequest } from '../validation/execution-request.ts';
import type { CallReader, SharedStreams } from '../worker/shared-stream.ts';
import type { WorkerClient } from '../worker/worker-client.ts';
import type { OpenLine, WorkerLine } from '../worker/worker-line.ts';
import type { ExecutionTarget } from './execution-target.ts';
import type { UnreadBudgets, UnreadBytes } from './unread-budget.ts';

/** The names that an error about a worker's stream needs. */
export interface StreamNames {
  readonly address: string;
  readonly sessionId: string;
  readonly executionId: string;
}

/** A stream of a worker. */
export interface WorkerStream extends StreamNames {
  readonly stream: ClientHttp2Stream;
}

/** One execution on its worker. */
interface PlacedExecution extends StreamNames {
  /** What an error of the worker is to be told as. */
  explain(error: unknown): Promise<unknown>;
}

/** A worker's stream of one execution, to be decoded here. */
export interface ExecutionStream extends PlacedExecution, WorkerStream {}

/** A worker's line of one execution, to be passed on. */
export interface ExecutionLine extends PlacedExecution {
  readonly line: WorkerLine;
  /** What its client does not read counts here. */
  readonly unread: UnreadBytes;
}

/** An execution that shares a worker's stream with others. */
export interface SharedExecution extends PlacedExecution {
  /** Sends the request. Resolves with how to leave. */
  begin(reader: CallReader): Promise<() => void>;
  /** Opens a line for what is left. */
  attach(rest: ExecuteManyRest): Promise<ExecutionLine>;
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
  attachLine(project: string, request: AttachRequest): Promise<ExecutionLine>;
}

export interface ExecutionStreamsDeps {
  readonly sessions: SessionDirectory;
  readonly target: ExecutionTarget;
  readonly client: WorkerClient;
  readonly openLine: OpenLine;
  readonly unread: UnreadBudgets;
  readonly shared: SharedStreams;
  readonly limits: Limits;
}

export function createExecutionStreams(deps: ExecutionStreamsDeps): ExecutionStreams {
  const { target, client, openLine, unread, shared, limits } = deps;
  const { execute, attach } = ExecutionService.method;
  const explaining = (project: string, sessionId: string) => (error: unknown) =>
    explainError(deps.sessions, project, sessionId, error);
  const placeOf = async (project: string, request: AttachRequest): Promise<PlacedExecution> => {
    checkAttachRequest(request);
    const { sessionId, executionId } = request;
    const address = await target(project, sessionId);
    return { address, sessionId, executionId, explain: explaining(project, sessionId) };
  };
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
        begin: (reader) => shared.execute(address, project, named, traceparent, reader),
        async attach({ stdoutOffset, stderrOffset }) {
          const request = { sessionId, executionId, stdoutOffset, stderrOffset };
          const line = await openLine(address, request, { resumed: true });
          return { line, address, sessionId, executionId, explain, unread: unread.of(project) };
        },
      };
    },
    async execute(project, given, traceparent) {
      checkExecuteRequest(given, limits);
      const request = given.executionId === '' ? { ...given, executionId: makeExecutionId() } : given;
      const { sessionId, executionId } = request;
      const address = await target(project, sessionId);
      const stream = await client.openStream(address, execute, request, { project, traceparent });
      return { stream, address, sessionId, executionId, explain: explaining(project, sessionId) };
    },
    async attach(project, request) {
      const place = await placeOf(project, request);
      return { stream: await client.openStream(place.address, attach, request, { project }), ...place };
    },
    async attachLine(project, request) {
      const place = await placeOf(project, request);
      return { line: await openLine(place.address, request), ...place, unread: unread.of(project) };
    },
  };
}

/** The connection to the worker broke while the stream was open. The execution itself goes on. */
export function brokenStream(of: StreamNames, cause: unknown): DomainError {
  const { address, sessionId, executionId } = of;
  const said = cause instanceof Error ? cause.message : String(cause);
  const message = `the connection to the worker at ${address} broke (${said}); attach again from the offsets you have`;
  const metadata = { session_id: sessionId, execution_id: executionId };
  return new DomainError('WORKER_UNREACHABLE', message, metadata, { cause });
}
