import type { ServerHttp2Stream } from 'node:http2';
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { BinaryReader, BinaryWriter } from '@bufbuild/protobuf/wire';
import { ExecuteManyEndSchema } from '../../../gen/assay/internal/v1/worker_pb.js';
import { type ExecuteRequest, ExecuteRequestSchema } from '../../../gen/assay/v1/execution_pb.js';
import { grpcPrefix } from '../../shared/grpc-frame.ts';
import type { Logger } from '../../shared/log.ts';
import { toConnectError, toTrailers } from '../../shared/rpc-error.ts';
import { returnBuffer } from '../execution/buffer-pool.ts';
import { outputHead } from '../execution/event-frame.ts';
import type { Execution } from '../execution/execution.ts';
import type { EventSink, Subscription } from '../execution/subscription.ts';
import type { Meter } from '../meter.ts';

/** What one call may send this way. It has no flow control of its own, so a call that says more is told to attach. */
const callLimitBytes = 262_144;
/** What may wait for all calls together; past it every call with output is told to attach. */
const queueLimitBytes = 4 * 1_048_576;

/** What requests that wait for their turn may hold. */
const waitingLimitBytes = 4 * 1_048_576;
/** What a request takes beside its bytes, about: it is decoded before it waits. */
const decodedBytes = 1_024;

type End = MessageInitShape<typeof ExecuteManyEndSchema>;

/** What a call has to say since the last write. */
interface News {
  readonly frames: Buffer[];
  end?: End;
}

const writer = new BinaryWriter();

/** An ExecuteManyResponse, written around its frames: they are the most of it. */
function responseFrame(to: Uint8Array[], call: number, frames: readonly Buffer[], end: End | undefined): void {
  const bytes = frames.reduce((sum, frame) => sum + frame.length, 0);
  const head = writer.uint32(0x08).uint32(call).uint32(0x12).uint32(bytes).finish();
  if (end !== undefined) writer.uint32(0x1a).bytes(toBinary(ExecuteManyEndSchema, create(ExecuteManyEndSchema, end)));
  const tail = writer.finish();
  to.push(grpcPrefix(head.length + bytes + tail.length), head, ...frames, tail);
}

export interface ExecuteManyDeps {
  accept(request: ExecuteRequest, encoded: Uint8Array, traceparent: string | undefined): Execution;
  /** Runs the work when it is the turn of the session's project. */
  inTurn(sessionId: string, work: () => void): void;
  readonly meter: Meter;
  readonly log: Logger;
}

/** Many Executes on one stream. What all calls say in one turn of the event loop leaves as one write. */
export function serveExecuteMany(
  stream: ServerHttp2Stream,
  { accept, inTurn, meter, log }: ExecuteManyDeps,
): (message: Buffer) => void {
  const calls = new Map<number, Subscription>();
  /** Those that wait for the turn of their project. */
  const waiting = new Set<number>();
  let waitingBytes = 0;
  let news = new Map<number, News>();

  stream.respond({ ':status': 200, 'content-type': 'application/grpc+proto' }, { waitForTrailers: true });
  stream.on('wantTrailers', () => !stream.destroyed && stream.sendTrailers({ 'grpc-status': '0' }));
  stream.on('end', () => stream.end());
  // The readers went away; their executions go on.
  stream.on('close', () => {
    waiting.clear();
    for (const [call, subscription] of calls) {
      subscription.cancel();
      forget(call);
    }
  });

  function flush(): void {
    const messages: Uint8Array[] = [];
    for (const [call, { frames, end }] of news) responseFrame(messages, call, frames, end);
    news = new Map();
    if (!stream.destroyed && !stream.writableEnded) stream.write(Buffer.concat(messages));
  }

  function newsOf(call: number): News {
    let found = news.get(call);
    if (found === undefined) {
      found = { frames: [] };
      if (news.size === 0) process.nextTick(flush);
      news.set(call, found);
    }
    return found;
  }

  function forget(call: number): void {
    if (calls.delete(call)) meter.openStreams.Execute -= 1;
  }

  function finish(call: number, end: End): void {
    forget(call);
    newsOf(call).end = end;
  }

  function fail(call: number, error: unknown): void {
    const report = (unexpected: unknown) => log.error({ err: unexpected }, 'a call failed');
    finish(call, { trailers: toTrailers(toConnectError(error, report)) });
  }

  function createSink(call: number): EventSink {
    let sent = 0;
    return {
      get writable() {
        return calls.has(call);
      },
      event(frame) {
        if (calls.has(call)) newsOf(call).frames.push(frame);
      },
      output(which, offset, data) {
        sent += data.length;
        if (sent > callLimitBytes || stream.writableLength > queueLimitBytes) handOver(call);
        // A copy: the bytes leave later, and the pool wants its buffer back.
        else newsOf(call).frames.push(outputHead(which, offset, data.length), Buffer.from(data));
        returnBuffer(data);
      },
      end() {
        if (calls.has(call)) finish(call, {});
      },
      fail(error) {
        if (calls.has(call)) fail(call, error);
      },
    };
  }

  function handOver(call: number): void {
    const subscription = calls.get(call);
    if (subscription === undefined) return;
    const offset = (which: 1 | 2) => BigInt(subscription.cursor(which));
    finish(call, { rest: { stdoutOffset: offset(1), stderrOffset: offset(2) } });
    subscription.cancel();
  }

  /** Past the limit the stream is not read, which stops its sender. */
  function countWaiting(bytes: number): void {
    waitingBytes += bytes;
    if (waitingBytes > waitingLimitBytes) stream.pause();
    else if (stream.isPaused() && waitingBytes <= waitingLimitBytes / 2) stream.resume();
  }

  function begin(call: number, request: ExecuteRequest, encoded: Uint8Array, traceparent: string | undefined): void {
    countWaiting(-decodedBytes - encoded.length);
    try {
      const execution = accept(request, encoded, traceparent);
      // Its reader has left meanwhile; the execution goes on.
      if (!waiting.delete(call)) return;
      const subscription = execution.subscribe(createSink(call), { stdout: 0, stderr: 0, followBackground: false });
      calls.set(call, subscription);
      meter.openStreams.Execute += 1;
      subscription.pump();
    } catch (error) {
      if (waiting.delete(call) || calls.has(call)) fail(call, error);
    }
  }

  return (message) => {
    const { call, encoded, traceparent } = readRequest(message);
    if (encoded === undefined) {
      waiting.delete(call);
      calls.get(call)?.cancel();
      forget(call);
      return;
    }
    waiting.add(call);
    try {
      const request = fromBinary(ExecuteRequestSchema, encoded);
      countWaiting(decodedBytes + encoded.length);
      inTurn(request.sessionId, () => begin(call, request, encoded, traceparent));
    } catch (error) {
      waiting.delete(call);
      fail(call, error);
    }
  };
}

/** An ExecuteManyRequest, with the ExecuteRequest in it as it came: the journal takes it so. */
function readRequest(message: Uint8Array): { call: number; encoded?: Uint8Array; traceparent?: string } {
  const reader = new BinaryReader(message);
  const found: { call: number; encoded?: Uint8Array; traceparent?: string } = { call: 0 };
  while (reader.pos < reader.len) {
    const [field, type] = reader.tag();
    if (field === 1) found.call = reader.uint32();
    else if (field === 2) found.encoded = reader.bytes();
    else if (field === 3) found.traceparent = reader.string();
    else reader.skip(type, field);
  }
  return found;
}
