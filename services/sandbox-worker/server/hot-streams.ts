import type { ServerHttp2Stream } from 'node:http2';
import { fromBinary, toBinary } from '@bufbuild/protobuf';
import {
  type ExecuteRequest,
  ExecuteRequestSchema as PublicRequestSchema,
} from '../../../gen/assay/v1/execution_pb.js';
import { AttachRequestSchema, ExecuteRequestSchema } from '../../../gen/assay/worker/v1/worker_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import { createGrpcFrameReader } from '../../shared/grpc-frame.ts';
import type { Logger } from '../../shared/log.ts';
import type { Execution } from '../execution/execution.ts';
import type { Meter } from '../meter.ts';
import type { Sandboxes } from '../sandbox/sandboxes.ts';
import { type Carrier, carryOnStream } from './carrier.ts';
import { createEventStream, refuse } from './event-stream.ts';
import { serveExecuteMany } from './execute-many.ts';

const service = '/assay.worker.v1.WorkerService';
const requestLimit = 4 * 1_048_576;
/** It is written into the journal; what a tracer makes is 55 long. */
const traceparentLimit = 128;

type From = { stdout: number; stderr: number; followBackground: boolean; resumed?: boolean };
type Open = (message: Uint8Array, traceparent: string | string[] | undefined) => { execution: Execution; from: From };

/** Execute, ExecuteMany and Attach, the calls that carry output. */
export interface HotStreams {
  /** Returns whether the stream was one of them. */
  serve(stream: ServerHttp2Stream, path: string, traceparent: string | string[] | undefined): boolean;
  /** Serves an encoded AttachRequest on what `carrier` makes, once it is known that it can be. Throws where it cannot. */
  attach(message: Uint8Array, carrier: () => Carrier): void;
}

export function createHotStreams(sandboxes: Sandboxes, meter: Meter, log: Logger): HotStreams {
  const accept = (request: ExecuteRequest, encoded: Uint8Array, given: string | string[] | undefined): Execution => {
    const traceparent = typeof given === 'string' && given.length <= traceparentLimit ? given : undefined;
    const sandbox = sandboxes.find(request.sessionId);
    if (sandbox.paused) {
      throw new DomainError('SESSION_NOT_READY', 'the session is paused; call ResumeSession first');
    }
    sandbox.activeMs = Date.now();
    return sandbox.executions.accept(request, encoded, traceparent);
  };

  const execute: Open = (message, traceparent) => {
    const { request } = fromBinary(ExecuteRequestSchema, message);
    if (request === undefined) throw new DomainError('INVALID_FIELD', 'request: missing', { field: 'request' });
    const encoded = toBinary(PublicRequestSchema, request);
    return {
      execution: accept(request, encoded, traceparent),
      from: { stdout: 0, stderr: 0, followBackground: false },
    };
  };

  const attach: Open = (message) => {
    const { request, resumed } = fromBinary(AttachRequestSchema, message);
    if (request === undefined) throw new DomainError('INVALID_FIELD', 'request: missing', { field: 'request' });
    const sandbox = sandboxes.find(request.sessionId);
    sandbox.activeMs = Date.now();
    const execution = sandbox.executions.find(request.executionId);
    const from = {
      stdout: Number(request.stdoutOffset),
      stderr: Number(request.stderrOffset),
      followBackground: request.followBackground,
      resumed,
    };
    refuseBeyondEnd(execution, from);
    return { execution, from };
  };

  const calls: Readonly<Record<string, Open>> = { [`${service}/Execute`]: execute, [`${service}/Attach`]: attach };

  function serve(stream: ServerHttp2Stream, path: string, given: string | string[] | undefined): boolean {
    if (path === `${service}/ExecuteMany`) {
      const reader = createGrpcFrameReader(requestLimit);
      const take = serveExecuteMany(stream, accept, meter, log);
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
        const { execution, from } = open(message, given);
        follow(execution, from, carryOnStream(stream), open === execute ? 'Execute' : 'Attach');
      } catch (error) {
        refuse(stream, error, log);
      }
    });
    return true;
  }

  function follow(execution: Execution, from: From, carrier: Carrier, method: keyof Meter['openStreams']): void {
    meter.openStreams[method] += 1;
    const events = createEventStream(carrier, log);
    const subscription = execution.subscribe(events, from);
    events.onRoom(() => subscription.pump());
    // The reader went away; the execution goes on.
    carrier.onClose(() => {
      meter.openStreams[method] -= 1;
      subscription.cancel();
    });
    subscription.pump();
  }

  return {
    serve,
    attach(message, carrier) {
      const { execution, from } = attach(message, undefined);
      follow(execution, from, carrier(), 'Attach');
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
