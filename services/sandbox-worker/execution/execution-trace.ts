import { EndReason, type ExecutionResult } from '../../../gen/assay/v1/execution_pb.js';
import type { DomainError } from '../../shared/domain-error.ts';
import type { Tracing } from '../../shared/tracing.ts';
import type { GuestExit } from '../guest/frame.ts';

/** An execution as one span, with what its guest did below it. */
export interface ExecutionTrace {
  started(): void;
  /** The guest saw its program end. */
  exited(exit: GuestExit): void;
  finished(result: ExecutionResult): void;
  refused(error: DomainError): void;
}

/** Names no command and no argument: traces go to places that output does not. */
export function traceExecution(
  tracing: Tracing,
  traceparent: string | undefined,
  acceptedMs: number,
  names: { sessionId: string; executionId: string },
): ExecutionTrace {
  const attributes = { 'assay.session_id': names.sessionId, 'assay.execution_id': names.executionId };
  const span = tracing.begin({ name: 'execution', kind: 'internal', traceparent, attributes, startMs: acceptedMs });
  span.event('accepted', acceptedMs);
  let over = false;

  function end(said: Record<string, string | number>, failure?: string): void {
    if (!over) span.end(said, failure);
    over = true;
  }

  return {
    started: () => span.event('started'),
    exited({ durationMicros, userMicros, systemMicros, status }) {
      const endMs = Date.now();
      const cpu = userMicros + systemMicros;
      const said = { 'assay.wait_status': status, 'assay.cpu_micros': cpu };
      span.child('guest', endMs - durationMicros / 1_000, endMs, said);
    },
    finished(result) {
      span.event('finished');
      end({
        'assay.reason': EndReason[result.reason],
        ...(result.exitCode === undefined ? {} : { 'assay.exit_code': result.exitCode }),
        ...(result.signal === undefined ? {} : { 'assay.signal': result.signal }),
        'assay.stdout_bytes': Number(result.stdoutBytes),
        'assay.stderr_bytes': Number(result.stderrBytes),
      });
    },
    refused: (error) => end({ 'assay.reason': error.reason }, error.reason),
  };
}
