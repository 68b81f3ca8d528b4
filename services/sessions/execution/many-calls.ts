import { create, toBinary } from '@bufbuild/protobuf';
import { BinaryReader, BinaryWriter } from '@bufbuild/protobuf/wire';
import type { Code, ConnectError } from '@connectrpc/connect';
import type { ExecuteManyEnd as WorkerEnd } from '../../../gen/assay/internal/v1/worker_pb.js';
import { ExecuteManyEndSchema, ExecuteRequestSchema, ExecutionService } from '../../../gen/assay/v1/execution_pb.js';
import { grpcPrefixBytes } from '../../shared/grpc-frame.ts';
import { toStatus } from '../../shared/rpc-error.ts';
import type { WorkShares } from '../../shared/work-shares.ts';
import type { Admission } from '../auth/admission.ts';
import type { Peer } from '../auth/peer.ts';
import type { CallRecord, CallRecords } from '../rpc/call-record.ts';
import { invalid } from '../validation/field.ts';
import { decodeRequest } from '../validation/message.ts';
import type { CallReader } from '../worker/shared-stream.ts';
import { errorOfStatus } from '../worker/worker-status.ts';
import { brokenStream, type ExecutionStreams, type SharedExecution } from './execution-stream.ts';

/** Who speaks on a stream. Every call is let in by itself: a key may be revoked, or spent, while the stream stays open. */
export interface Speaker {
  readonly authorization: string | undefined;
  readonly peer: Peer;
}

/** The way back to the speaker. */
export interface Answering {
  /** ExecuteManyResponses, encoded. */
  send(messages: readonly Buffer[]): void;
  /** Whether so much waits already that what can be read another way must be. */
  readonly crowded: boolean;
  /** The last call is over. */
  idle(): void;
}

/** The calls of one ExecuteMany. */
export interface ManyCalls {
  /** How many are open, or have something left to say. */
  readonly size: number;
  /** An encoded ExecuteManyRequest. Throws where the stream makes no sense from here on. */
  take(message: Uint8Array): void;
  /** Reads no call any more; their commands go on. */
  close(): void;
}

export type OpenManyCalls = (speaker: Speaker, answering: Answering) => ManyCalls;

export interface ManyCallsDeps {
  readonly admission: Admission;
  readonly records: CallRecords;
  readonly streams: ExecutionStreams;
  readonly shares: WorkShares;
}

/** What a call has to say since the last message. */
interface News {
  readonly events: Uint8Array[];
  end?: { status: Uint8Array; more: boolean };
}

interface Call {
  readonly record: CallRecord;
  over: boolean;
  release(): void;
  leave(): void;
}

const executeMethod = `${ExecutionService.typeName}/${ExecutionService.method.execute.name}`;
const nothing = new Uint8Array();
const writer = new BinaryWriter();

export function createManyCalls({ admission, records, streams, shares }: ManyCallsDeps): OpenManyCalls {
  return (speaker, answering) => {
    const calls = new Map<number, Call>();
    let news = new Map<number, News>();

    /** What all calls say in one turn of the event loop leaves together. */
    function flush(): void {
      const messages = Array.from(news, ([number, { events, end }]) => encode(number, events, end));
      news = new Map();
      answering.send(messages);
      if (calls.size === 0) answering.idle();
    }

    function newsOf(number: number): News {
      let found = news.get(number);
      if (found === undefined) {
        found = { events: [] };
        if (news.size === 0) process.nextTick(flush);
        news.set(number, found);
      }
      return found;
    }

    function finish(number: number, call: Call, status: Uint8Array, code: Code | undefined, more = false): void {
      if (call.over) return;
      forget(number, call, code);
      newsOf(number).end = { status, more };
    }

    function fail(number: number, call: Call, error: unknown): void {
      if (call.over) return;
      const mapped: ConnectError = call.record.fail(error);
      finish(number, call, toStatus(mapped), mapped.code);
    }

    function forget(number: number, call: Call, code: Code | undefined): void {
      call.over = true;
      calls.delete(number);
      call.release();
      call.record.end(code);
    }

    function readerOf(number: number, call: Call, execution: SharedExecution): CallReader {
      return {
        frames(bytes) {
          if (call.over) return;
          if (!answering.crowded) return unframe(bytes, newsOf(number).events);
          call.leave();
          finish(number, call, nothing, undefined, true);
        },
        end(end) {
          const error = errorOf(end);
          if (error === undefined) finish(number, call, nothing, undefined, end.rest !== undefined);
          else void execution.explain(error).then((explained) => fail(number, call, explained));
        },
        broken: (cause) => fail(number, call, brokenStream(execution, cause)),
      };
    }

    async function run(number: number, call: Call, encoded: Uint8Array): Promise<void> {
      const { caller, release } = await admission.admit({ ...speaker, method: executeMethod, streaming: true });
      call.release = release;
      if (call.over || caller === undefined) return release();
      const turn = shares.turn(caller.project, encoded.length);
      if (turn !== undefined) await turn;
      if (call.over) return;
      const request = decodeRequest(ExecuteRequestSchema, encoded);
      call.record.about({ project: caller.project, keyId: caller.keyId, sessionId: request.sessionId });
      const execution = await streams.share(caller.project, request, encoded, call.record.traceparent);
      if (call.over) return;
      const leave = await execution.begin(readerOf(number, call, execution));
      if (call.over) leave();
      else call.leave = leave;
    }

    return {
      get size() {
        return calls.size + news.size;
      },
      take(message) {
        const { number, encoded, traceparent } = readRequest(message);
        const open = calls.get(number);
        if (encoded === undefined) {
          open?.leave();
          if (open !== undefined) forget(number, open, undefined);
          return;
        }
        if (open !== undefined) throw invalid('call', `found ${number}, which is open`, 'a number of its own');
        const record = records(executeMethod, true, { requestId: undefined, traceparent });
        const call: Call = { record, over: false, release() {}, leave() {} };
        calls.set(number, call);
        run(number, call, encoded).catch((error) => fail(number, call, error));
      },
      close() {
        for (const [number, call] of calls) {
          call.leave();
          forget(number, call, undefined);
        }
      },
    };
  };
}

/** The events lie in an ExecuteManyResponse as they do in an ExecuteResponse: they are copied as they come. */
function encode(number: number, events: readonly Uint8Array[], end: News['end']): Buffer {
  writer.uint32(0x10).uint32(number);
  if (end !== undefined) writer.uint32(0x1a).bytes(toBinary(ExecuteManyEndSchema, create(ExecuteManyEndSchema, end)));
  return Buffer.concat([...events, writer.finish()]);
}

/** gRPC frames of ExecuteResponse, without their prefixes. */
function unframe(frames: Uint8Array, to: Uint8Array[]): void {
  const view = new DataView(frames.buffer, frames.byteOffset, frames.byteLength);
  for (let at = 0; at < frames.length; ) {
    const end = at + grpcPrefixBytes + view.getUint32(at + 1);
    to.push(frames.subarray(at + grpcPrefixBytes, end));
    at = end;
  }
}

function errorOf({ trailers }: WorkerEnd): Error | undefined {
  return trailers['grpc-status'] === undefined ? undefined : errorOfStatus(trailers);
}

/** An ExecuteManyRequest, with the ExecuteRequest in it as it came: the worker takes it so. */
function readRequest(message: Uint8Array): { number: number; encoded?: Uint8Array; traceparent?: string } {
  const found: { number: number; encoded?: Uint8Array; traceparent?: string } = { number: 0 };
  try {
    const reader = new BinaryReader(message);
    while (reader.pos < reader.len) {
      const [field, type] = reader.tag();
      if (field === 1) found.number = reader.uint32();
      else if (field === 2) found.encoded = reader.bytes();
      else if (field === 3) found.traceparent = reader.string();
      else reader.skip(type, field);
    }
  } catch (error) {
    throw invalid('request', `cannot be read: ${(error as Error).message}`, 'a message of this method');
  }
  return found;
}
