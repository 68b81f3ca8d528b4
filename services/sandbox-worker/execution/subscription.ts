import { create } from '@bufbuild/protobuf';
import {
  type AwaitingInput,
  type ExecutionResult,
  GapSchema,
  OutputStream,
} from '../../../gen/assay/v1/execution_pb.js';
import { HeartbeatSchema } from '../../../gen/assay/v1/types_pb.js';
import type { DomainError } from '../../shared/domain-error.ts';
import type { Stream } from '../guest/frame.ts';
import { finishedFrame, startedFrame } from './command-record.ts';
import { eventFrame } from './event-frame.ts';
import type { Spool } from './spool.ts';

/** Where a reader's events go. */
export interface EventSink {
  /** Whether it takes more now. It calls the subscription's `pump` when it does again. */
  readonly writable: boolean;
  /** An event that is no output, as a gRPC frame. */
  event(frame: Buffer): void;
  /** Takes the buffer over, and gives it back to the pool. */
  output(stream: Stream, offset: number, data: Buffer): void;
  end(): void;
  fail(error: unknown): void;
}

/** What a reader may see of an execution. */
export interface Readable {
  readonly id: string;
  readonly startedMs: number | undefined;
  readonly result: ExecutionResult | undefined;
  readonly refusal: DomainError | undefined;
  /** Nobody holds the streams any more. */
  readonly drained: boolean;
  readonly awaiting: { readonly now: AwaitingInput | undefined };
  spool(stream: Stream): Spool;
  /** A reader moved on: bytes may be acknowledged now. */
  advanced(): void;
  unsubscribe(subscription: Subscription): void;
}

/** One reader with cursors of its own in the spool. */
export interface Subscription {
  cursor(stream: Stream): number;
  /** Whether the program no longer waits for this reader. */
  abandoned(stream: Stream): boolean;
  abandon(stream: Stream): void;
  pump(): void;
  heartbeat(): void;
  fail(error: unknown): void;
  /** The reader went away. */
  cancel(): void;
}

export function createSubscription(
  execution: Readable,
  sink: EventSink,
  from: { stdout: number; stderr: number; followBackground: boolean; resumed?: boolean },
): Subscription {
  const cursors: Record<Stream, number> = { 1: from.stdout, 2: from.stderr };
  const given: Record<Stream, boolean> = { 1: false, 2: false };
  let startedSent = from.resumed ?? false;
  let done = false;
  let quiet = true;
  let toldAwaiting: AwaitingInput | undefined;

  function sendStarted(): boolean {
    if (startedSent) return true;
    if (execution.startedMs === undefined) return false;
    startedSent = true;
    sink.event(startedFrame(execution.id, execution.startedMs));
    return true;
  }

  /** The first byte that is not for this reader. */
  function limit(stream: Stream): number {
    const { result } = execution;
    if (result === undefined || from.followBackground) return Number.POSITIVE_INFINITY;
    return Number(stream === 1 ? result.stdoutBytes : result.stderrBytes);
  }

  function readOne(stream: Stream): boolean {
    const end = limit(stream);
    if (cursors[stream] >= end) return false;
    const read = execution.spool(stream).read(cursors[stream], end - cursors[stream]);
    if (read.type === 'nothing') return false;
    if (read.type === 'data') {
      sink.output(stream, read.offset, read.data);
      cursors[stream] += read.data.length;
      return true;
    }
    const to = Math.min(read.to, end);
    const name = stream === 1 ? OutputStream.STDOUT : OutputStream.STDERR;
    const gap = create(GapSchema, { stream: name, startOffset: BigInt(read.from), endOffset: BigInt(to) });
    sink.event(eventFrame({ case: 'gap', value: gap }));
    cursors[stream] = to;
    return true;
  }

  function caughtUp(stream: Stream): boolean {
    return cursors[stream] >= Math.min(limit(stream), execution.spool(stream).total);
  }

  /** Behind all output, because what was asked for stands there. */
  function tellAwaiting(): void {
    const { now } = execution.awaiting;
    if (now === toldAwaiting || !caughtUp(1) || !caughtUp(2) || !sink.writable) return;
    toldAwaiting = now;
    if (now !== undefined) sink.event(eventFrame({ case: 'awaitingInput', value: now }));
  }

  function finishIfDone(): void {
    const { result } = execution;
    if (done || result === undefined || !caughtUp(1) || !caughtUp(2)) return;
    if (from.followBackground && !execution.drained) return;
    done = true;
    sink.event(finishedFrame(result));
    sink.end();
    execution.unsubscribe(subscription);
  }

  /** Called from timers and sockets, where an error would end the process: one that cannot be read ends this reader alone. */
  function pump(): void {
    try {
      readOn();
    } catch (error) {
      subscription.fail(error);
    }
  }

  function readOn(): void {
    if (done) return;
    if (execution.refusal !== undefined) {
      subscription.fail(execution.refusal);
      return;
    }
    // One that was ended before it ran has a result and no start.
    if (!sendStarted() && execution.result === undefined) return;
    let moved = false;
    for (let more = true; more && sink.writable; ) {
      more = readOne(1);
      if (sink.writable) more = readOne(2) || more;
      moved ||= more;
    }
    if (moved) {
      quiet = false;
      for (const stream of [1, 2] as const) if (caughtUp(stream)) given[stream] = false;
      execution.advanced();
    }
    tellAwaiting();
    finishIfDone();
  }

  const subscription: Subscription = {
    cursor: (stream) => cursors[stream],
    abandoned: (stream) => given[stream],
    abandon(stream) {
      given[stream] = true;
    },
    pump,
    heartbeat() {
      if (!done && quiet && sink.writable && startedSent) {
        sink.event(eventFrame({ case: 'heartbeat', value: create(HeartbeatSchema) }));
      }
      quiet = true;
    },
    fail(error) {
      if (done) return;
      done = true;
      sink.fail(error);
      execution.unsubscribe(subscription);
    },
    cancel() {
      if (done) return;
      done = true;
      execution.unsubscribe(subscription);
    },
  };
  return subscription;
}
