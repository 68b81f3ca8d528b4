import type { IncomingHttpHeaders, ServerHttp2Stream } from 'node:http2';
import { fromBinary } from '@bufbuild/protobuf';
import { WorkerService } from '../../../gen/assay/internal/v1/worker_pb.js';
import {
  AttachRequestSchema,
  type ExecuteRequest,
  ExecuteRequestSchema,
  ExecutionService,
} from '../../../gen/assay/v1/execution_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import { createGrpcFrameReader, methodPath } from '../../shared/grpc-frame.ts';
import type { Logger } from '../../shared/log.ts';
import { resumedHeader } from '../../shared/resumed-header.ts';
import type { WorkShares } from '../../shared/work-shares.ts';
import type { Execution } from '../execution/execution.ts';
import type { Meter } from '../meter.ts';
import type { Sandboxes } from '../sandbox/sandboxes.ts';
import { checkAwake } from '../sandbox/standstill.ts';
import { type Carrier, carryOnStream } from './carrier.ts';
import { createEventStream, refuse } from './event-stream.ts';
import { serveExecuteMany } from './execute-many.ts';

const executePath = methodPath(ExecutionService.method.execute);
export const attachPath = methodPath(ExecutionService.method.attach);
const manyPath = methodPath(WorkerService.method.executeMany);
const requestLimit = 4 * 1_048_576;
/** It is written into the journal; what a tracer makes is 55 long. */
const traceparentLimit = 128;

type From = { stdout: number; stderr: number; followBackground: boolean; resumed?: boolean };
type Open = (
  message: Uint8Array,
  headers: IncomingHttpHeaders,
) => { project: string; execution: Execution; from: From };

/** Execute, ExecuteMany and Attach, the calls that carry output. */
export interface HotStreams {
  /** Returns whether the stream was one of them. */
  serve(stream: ServerHttp2Stream, path: string, headers: IncomingHttpHeaders): boolean;
  /** Serves an encoded AttachRequest on what `carrier` makes, once it is known that it can be. Throws where it cannot. */
  attach(message: Uint8Array, headers: IncomingHttpHeaders, carrier: () => Carrier): void;
}

export function createHotStreams(sandboxes: Sandboxes, meter: Meter, shares: WorkShares, log: Logger): HotStreams {
  const accept = (request: ExecuteRequest, encoded: Uint8Array, given: string | string[] | undefined): Execution => {
    const traceparent = typeof given === 'string' && given.length <= traceparentLimit ? given : undefined;
    const sandbox = sandboxes.use(request.sessionId);
    checkAwake(sandbox);
    return sandbox.executions.accept(request, encoded, traceparent);
  };

  const inTurn = (sessionId: string, work: () => void): void => shares.run(sandboxes.projectOf(sessionId), work);

  const execute: Open = (message, { traceparent }) => {
    const request = fromBinary(ExecuteRequestSchema, message);
    return {
      project: sandboxes.projectOf(request.sessionId),
      execution: accept(request, message, traceparent),
      from: { stdout: 0, stderr: 0, followBackground: false },
    };
  };

  const attach: Open = (message, headers) => {
    const request = fromBinary(AttachRequestSchema, message);
    const sandbox = sandboxes.use(request.sessionId);
    const execution = sandbox.executions.find(request.executionId);
    const from = {
      stdout: Number(request.stdoutOffset),
      stderr: Number(request.stderrOffset),
      followBackground: request.followBackground,
      resumed: headers[resumedHeader] !== undefined,
    };
    refuseBeyondEnd(execution, from);
    return { project: sandbox.project, execution, from };
  };

  const calls: Readonly<Record<string, Open>> = { [executePath]: execute, [attachPath]: attach };

  function serve(stream: ServerHttp2Stream, path: string, headers: IncomingHttpHeaders): boolean {
    if (path === manyPath) {
      const reader = createGrpcFrameReader(requestLimit);
      const take = serveExecuteMany(stream, { accept, inTurn, meter, log });
      stream.on('error', () => stream.destroy());
      stream.on('data', (chunk: Buffer) => {
        try {
          for (const message of reader.push(chunk)) take(message);
        } catch (error) {
          log.error({ err: error }, 'a stream of many executions broke');
          stream.destroy();
        }
      });
      return true;
    }
    const open = calls[path];
    if (open === undefined) return false;
    const reader = createGrpcFrameReader(requestLimit);
    stream.on('error', () => stream.destroy());
    stream.on('data', (chunk: Buffer) => {
      try {
        const message = reader.push(chunk)[0];
        if (message === undefined || stream.headersSent) return;
        const { project, execution, from } = open(message, headers);
        follow(project, execution, from, carryOnStream(stream), open === execute ? 'Execute' : 'Attach');
      } catch (error) {
        refuse(stream, error, log);
      }
    });
    return true;
  }

  function follow(
    project: string,
    execution: Execution,
    from: From,
    carrier: Carrier,
    method: keyof Meter['openStreams'],
  ): void {
    meter.openStreams[method] += 1;
    const events = createEventStream(carrier, log);
    const subscription = execution.subscribe(events, from);
    events.onRoom(() => shares.run(project, () => subscription.pump()));
    // The reader went away; the execution goes on.
    carrier.onClose(() => {
      meter.openStreams[method] -= 1;
      subscription.cancel();
    });
    subscription.pump();
  }

  return {
    serve,
    attach(message, headers, carrier) {
      const { project, execution, from } = attach(message, headers);
      follow(project, execution, from, carrier(), 'Attach');
    },
  };
}

/** An offset past the end of a finished execution names bytes that never were. */
function refuseBeyondEnd(execution: Execution, from: From): void {
  if (!execution.settled) return;
  for (const [field, stream, offset] of [
    ['stdout_offset', 1, from.stdout],
    ['stderr_offset', 2, from.stderr],
  ] as const) {
    const { total } = execution.spool(stream);
    if (offset <= total) continue;
    const message = `${field}: ${offset} is past the end; the stream has ${total} bytes`;
    throw new DomainError('INVALID_FIELD', message, { field, limit: String(total) });
  }
}
