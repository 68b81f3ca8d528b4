import type { ServiceImpl } from '@connectrpc/connect';
import type { ExecutionService } from '../../../gen/assay/v1/execution_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import { countPassed } from '../../shared/young-collection.ts';
import type { Execution } from '../execution/execution.ts';
import { viewOf } from '../execution/execution-view.ts';
import type { Sandboxes } from '../sandbox/sandboxes.ts';
import { pageOf } from './page.ts';

/** What of ExecutionService does not carry output: hot-streams.ts has the rest, and transcripts are made by the sessions service. */
export type ExecutionCalls = Omit<
  ServiceImpl<typeof ExecutionService>,
  'execute' | 'executeMany' | 'attach' | 'getTranscript'
>;

export function createExecutionCalls(sandboxes: Sandboxes): ExecutionCalls {
  const executionOf = ({ sessionId, executionId }: { sessionId: string; executionId: string }): Execution =>
    sandboxes.use(sessionId).executions.find(executionId);
  return {
    getExecution: (request) => ({ execution: viewOf(executionOf(request)) }),
    listExecutions({ sessionId, pageSize, pageToken }) {
      const { executions } = sandboxes.use(sessionId);
      const { shown, nextPageToken } = pageOf(pageSize, pageToken, (after, limit) => executions.list(after, limit));
      return { executions: shown.map(viewOf), nextPageToken };
    },
    async writeInput(request, { signal }) {
      const { offset, data, end } = request;
      countPassed(data.length);
      const nextOffset = await executionOf(request).input.write(Number(offset), data, end, signal);
      return { nextOffset: BigInt(nextOffset) };
    },
    async closeInput(request) {
      const { input, spec } = executionOf(request);
      if (!spec.inputOpen) {
        throw new DomainError('INPUT_NOT_OPEN', 'there is no input to close: it was started without input_open');
      }
      return { inputBytes: BigInt(await input.end()) };
    },
    signalExecution(request) {
      executionOf(request).signal(request.signal);
      return {};
    },
    cancelExecution(request) {
      executionOf(request).cancel();
      return {};
    },
    resizeTerminal(request) {
      const { running, terminal } = executionOf(request);
      if (!running) throw new DomainError('EXECUTION_ENDED', 'the execution has ended; its terminal is gone');
      if (request.size === undefined) throw new DomainError('INVALID_FIELD', 'size: missing', { field: 'size' });
      terminal.resize(request.size);
      return {};
    },
  };
}
