import type { ClientHttp2Stream } from 'node:http2';
import { fromBinary } from '@bufbuild/protobuf';
import { BinaryReader, BinaryWriter } from '@bufbuild/protobuf/wire';
import { Code, ConnectError } from '@connectrpc/connect';
import { ExecuteManyEndSchema, ExecutionService } from '../../gen/assay/v1/execution_pb.js';
import { checkTrailers } from './call-status.ts';
import type { Connection } from './connection.ts';
import type { EventStream } from './event-stream.ts';
import { createFrameReader } from './frame-reader.ts';
import { cancel, grpcFrame, readResponse } from './grpc-response.ts';
import { decodeEvent, type ReceivedEvent } from './received-event.ts';

const path = `/${ExecutionService.typeName}/${ExecutionService.method.executeMany.name}`;
const largestMessageBytes = 64 * 1024 * 1024;
/** A longer request would hold up the others, and one over the server's limit would end the stream for all. */
const sharedRequestBytes = 256 * 1024;
/** A stream that nobody used for so long is ended. */
const idleMs = 30_000;

/** Executes that share one stream: opening one for each would cost more than most commands do. */
export interface SharedCalls {
  /** Undefined: the request is too long for that, or this server does not have it. */
  execute(message: Uint8Array, traceparent: string | undefined): EventStream | undefined;
}

/** How a call ended. */
interface CallEnd {
  /** Made when somebody asks: most calls end well, and a stack costs much. Gives undefined where it did. */
  failure(): unknown;
  /** Whether there is more to read, or all, on a stream of its own. */
  readonly more: boolean;
}

/** Reads one call. */
interface CallReader {
  take(events: ReceivedEvent[], end: CallEnd | undefined): void;
}

interface SharedStream {
  execute(message: Uint8Array, traceparent: string | undefined): EventStream;
}

export function createSharedCalls(connection: Connection): SharedCalls {
  let current: SharedStream | undefined;
  let known = true;
  return {
    execute(message, traceparent) {
      if (!known || message.length > sharedRequestBytes) return undefined;
      if (current === undefined) {
        const opened = openShared(connection.request(path, undefined), (failure) => {
          if (current === opened) current = undefined;
          known = !isUnknown(failure);
        });
        current = opened;
      }
      return current.execute(message, traceparent);
    },
  };
}

/** One ExecuteMany. `over` is told once, as soon as no call may begin on it any more. */
function openShared(opening: Promise<ClientHttp2Stream>, over: (failure: unknown) => void): SharedStream {
  const readers = new Map<number, CallReader>();
  const frames = createFrameReader(largestMessageBytes, take);
  let stream: ClientHttp2Stream | undefined;
  let unsent: Buffer[] = [];
  let last = 0;
  let outcome: CallEnd | undefined;
  const idle = setTimeout(() => {
    if (readers.size > 0) return;
    settle(() => new ConnectError('the stream was idle', Code.Unavailable));
    stream?.end();
  }, idleMs).unref();

  /** The first end counts, and ends every call. */
  function settle(failure: () => unknown): void {
    if (outcome !== undefined) return;
    outcome = { failure, more: isUnknown(failure()) };
    clearTimeout(idle);
    over(failure());
    for (const reader of readers.values()) reader.take([], outcome);
    readers.clear();
  }

  function take(message: Buffer): void {
    const { number, events, end } = decodeResponse(message);
    const reader = readers.get(number);
    if (end !== undefined) readers.delete(number);
    reader?.take(events, end);
    if (readers.size === 0) idle.refresh();
  }

  function begin(opened: ClientHttp2Stream): void {
    stream = opened;
    readResponse(opened, {
      piece: frames.push,
      // The server has no reason to end it, but may.
      complete() {
        throw new ConnectError('the server ended the stream', Code.Unavailable);
      },
      failed: settle,
    });
    for (const frame of unsent) opened.write(frame);
    unsent = [];
    if (outcome !== undefined) cancel(opened);
  }

  function send(number: number, request?: Uint8Array, traceparent?: string): void {
    const writer = new BinaryWriter().uint32(0x08).uint32(number);
    if (request !== undefined) writer.uint32(0x12).bytes(request);
    if (traceparent !== undefined) writer.uint32(0x1a).string(traceparent);
    const frame = grpcFrame(writer.finish());
    if (stream === undefined) unsent.push(frame);
    else if (!stream.destroyed && !stream.writableEnded) stream.write(frame);
  }

  opening.then(begin, (failure) => settle(() => failure));
  return {
    execute(message, traceparent) {
      const number = ++last;
      const leave = (): void => {
        if (readers.delete(number)) send(number);
        if (readers.size === 0) idle.refresh();
      };
      const { events, reader } = createCall(leave);
      if (outcome !== undefined) reader.take([], outcome);
      else {
        readers.set(number, reader);
        send(number, message, traceparent);
      }
      return events;
    },
  };
}

/** What is read of one call. The server bounds what a call may send this way, so nothing here need hold it back. */
function createCall(leave: () => void): { events: EventStream; reader: CallReader } {
  let queue: ReceivedEvent[] = [];
  let outcome: CallEnd | undefined;
  let wake: (() => void) | undefined;
  const close = (): void => {
    outcome ??= { failure: () => new ConnectError('the reader left', Code.Canceled), more: false };
    queue = [];
    wake?.();
    leave();
  };
  const reader: CallReader = {
    take(events, end) {
      if (queue.length === 0) queue = events;
      else queue.push(...events);
      outcome ??= end;
      wake?.();
    },
  };
  const events: EventStream = {
    get more() {
      return outcome?.more ?? false;
    },
    async next() {
      if (queue.length === 0 && outcome === undefined) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
      if (queue.length === 0) {
        const failure = outcome?.more ? undefined : outcome?.failure();
        if (failure !== undefined) throw failure;
        return undefined;
      }
      const events = queue;
      queue = [];
      return events;
    },
    close,
    leave: close,
  };
  return { events, reader };
}

function decodeResponse(message: Buffer): Response {
  try {
    return readMessage(message);
  } catch (error) {
    throw new ConnectError(`parse binary: ${error}`, Code.Internal, undefined, undefined, error);
  }
}

interface Response {
  number: number;
  readonly events: ReceivedEvent[];
  end?: CallEnd;
}

/** An ExecuteManyResponse. Its events lie in it as in an ExecuteResponse each. */
function readMessage(message: Buffer): Response {
  const found: Response = { number: 0, events: [] };
  const reader = new BinaryReader(message);
  while (reader.pos < reader.len) {
    const at = reader.pos;
    const [field, type] = reader.tag();
    if (field === 2) found.number = reader.uint32();
    else if (field === 3) found.end = readEnd(reader.bytes());
    else reader.skip(type, field);
    if (field === 1) found.events.push(decodeEvent(message.subarray(at, reader.pos), false));
  }
  return found;
}

function readEnd(bytes: Uint8Array): CallEnd {
  const { status, more } = fromBinary(ExecuteManyEndSchema, bytes);
  return { failure: () => (status.length === 0 ? undefined : failureOf(status)), more };
}

/** A status means the same here as in the trailers of a call of its own. */
function failureOf(status: Uint8Array): unknown {
  const details = Buffer.from(status).toString('base64');
  try {
    checkTrailers({ 'grpc-status': String(Code.Unknown), 'grpc-status-details-bin': details }, {});
    return new ConnectError('the server ended the call without a status', Code.Internal);
  } catch (failure) {
    return failure;
  }
}

/** A server that is older than this call. */
function isUnknown(failure: unknown): boolean {
  return failure instanceof ConnectError && failure.code === Code.Unimplemented;
}
