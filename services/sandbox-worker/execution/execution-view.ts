import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import {
  ExecutionSchema,
  ExecutionState,
  type Execution as ExecutionView,
} from '../../../gen/assay/v1/execution_pb.js';
import type { Execution } from './execution.ts';

/** An execution as clients see it. */
export function viewOf(execution: Execution): ExecutionView {
  const { result, startedMs, input } = execution;
  return create(ExecutionSchema, {
    sessionId: execution.host.sessionId,
    executionId: execution.id,
    shellId: execution.spec.shellId,
    state: stateOf(execution),
    summary: execution.spec.summary,
    ...(startedMs === undefined ? {} : { startTime: timestampFromMs(startedMs) }),
    ...(result === undefined ? {} : { result }),
    stdoutBytes: BigInt(execution.spool(1).total),
    stderrBytes: BigInt(execution.spool(2).total),
    inputOpen: execution.running && input.open,
    inputBytes: BigInt(input.received),
    background: result !== undefined && !execution.drained,
  });
}

function stateOf({ refusal, result, startedMs, waiting }: Execution): ExecutionState {
  if (refusal !== undefined) return ExecutionState.NOT_STARTED;
  if (result !== undefined) return ExecutionState.FINISHED;
  if (waiting) return ExecutionState.QUEUED;
  return startedMs === undefined ? ExecutionState.STARTING : ExecutionState.RUNNING;
}
