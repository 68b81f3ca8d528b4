import { create, fromBinary } from '@bufbuild/protobuf';
import type { ServiceImpl } from '@connectrpc/connect';
import {
  AttachResponseSchema,
  ExecuteResponseSchema,
  ExecutionService,
  ListExecutionsRequestSchema,
} from '../../../gen/assay/v1/execution_pb.js';
import { countPassed } from '../../shared/young-collection.ts';
import { requireCaller } from '../auth/caller.ts';
import type { Limits } from '../config.ts';
import { readExecutionStream } from '../execution/execution-reader.ts';
import type { ExecutionStreams } from '../execution/execution-stream.ts';
import type { OpenManyCalls } from '../execution/many-calls.ts';
import { readMany } from '../execution/many-reader.ts';
import type { SessionFollower } from '../transcript/session-follower.ts';
import { transcriptOf } from '../transcript/transcript-events.ts';
import { checkExecutionName, checkSignal, checkWriteInputRequest } from '../validation/execution-request.ts';
import { checkExecutionId, checkSessionId } from '../validation/identifier.ts';
import type { PageTokens } from '../validation/page-token.ts';
import { checkPageSize } from '../validation/session-request.ts';
import { checkTerminalSize } from '../validation/terminal-size.ts';
import { createForward, type ForwardDeps } from './forward.ts';
import { peerKey } from './peer.ts';
import { traceparentKey } from './trace.ts';

export interface ExecutionServiceDeps extends ForwardDeps {
  readonly streams: ExecutionStreams;
  readonly many: OpenManyCalls;
  readonly follow: SessionFollower;
  readonly tokens: PageTokens;
  readonly limits: Limits;
}

export function createExecutionService(deps: ExecutionServiceDeps): ServiceImpl<typeof ExecutionService> {
  const { streams, tokens, limits } = deps;
  const { getExecution, listExecutions, writeInput, closeInput, signalExecution, cancelExecution, resizeTerminal } =
    ExecutionService.method;

  const forward = createForward(deps);
  return {
    async *execute(request, context) {
      const opened = await streams.execute(requireCaller(context).project, request, context.values.get(traceparentKey));
      for await (const message of readExecutionStream(opened, context.signal)) {
        yield fromBinary(ExecuteResponseSchema, message);
      }
    },
    executeMany(requests, context) {
      const authorization = context.requestHeader.get('authorization') ?? undefined;
      const speaker = { authorization, peer: context.values.get(peerKey) };
      return readMany(requests, deps.many, speaker, context.signal);
    },
    async *attach(request, context) {
      const opened = await streams.attach(requireCaller(context).project, request);
      for await (const message of readExecutionStream(opened, context.signal)) {
        yield fromBinary(AttachResponseSchema, message);
      }
    },
    getExecution(request, context) {
      checkExecutionName(request);
      return forward(context, getExecution, request);
    },
    async listExecutions(request, context) {
      checkSessionId(request.sessionId);
      const pageSize = checkPageSize(request.pageSize);
      const query = `executions ${requireCaller(context).project} ${request.sessionId}`;
      const pageToken = request.pageToken === '' ? '' : tokens.open(query, request.pageToken);
      const inner = create(ListExecutionsRequestSchema, { sessionId: request.sessionId, pageSize, pageToken });
      const page = await forward(context, listExecutions, inner);
      const next = page.nextPageToken === '' ? '' : tokens.make(query, page.nextPageToken);
      return { executions: page.executions, nextPageToken: next };
    },
    writeInput(request, context) {
      checkWriteInputRequest(request, limits);
      countPassed(request.data.length);
      return forward(context, writeInput, request);
    },
    closeInput(request, context) {
      checkExecutionName(request);
      return forward(context, closeInput, request);
    },
    signalExecution(request, context) {
      checkExecutionName(request);
      checkSignal(request.signal);
      return forward(context, signalExecution, request);
    },
    cancelExecution(request, context) {
      checkExecutionName(request);
      return forward(context, cancelExecution, request);
    },
    resizeTerminal(request, context) {
      checkExecutionName(request);
      checkTerminalSize('size', request.size);
      return forward(context, resizeTerminal, request);
    },
    async *getTranscript({ sessionId, executionId, cursor, withoutOutput }, context) {
      checkSessionId(sessionId);
      if (executionId !== '') checkExecutionId(executionId);
      const query = { sessionId, executionId, cursor, withoutOutput, untilNow: true };
      yield* transcriptOf(deps.follow(requireCaller(context).project, query, context.signal), query);
    },
  };
}
