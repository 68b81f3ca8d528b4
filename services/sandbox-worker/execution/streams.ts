import type { DomainError } from '../../shared/domain-error.ts';
import { ack, type Stream } from '../guest/frame.ts';
import type { ExecutionHost, ExecutionSpec } from './execution-spec.ts';
import { createOutput, type Output } from './output.ts';
import type { OutputHolding } from './output-holding.ts';
import type { Spool } from './spool.ts';
import type { Subscription } from './subscription.ts';

/** What an execution prints, on both streams, and who reads it. */
export class Streams {
  private readonly outputs: Record<Stream, Output>;
  private readonly readers = new Set<Subscription>();

  /** `number`: what the guest calls the execution. `holder`: whose the disk is that the output takes. */
  constructor(spec: ExecutionSpec, adopted: boolean, host: ExecutionHost, number: () => bigint, holder: OutputHolding) {
    const acknowledge = (stream: Stream, offset: number) => host.send(ack(number(), stream, offset));
    const disk = { grew: (bytes: number) => holder.grew(bytes), full: () => host.budget.full() };
    const deps = {
      path: (stream: Stream) => host.spoolPath(spec.number, stream),
      ...{ keptBytes: spec.keptBytes, adopted, readers: this.readers, sendAck: acknowledge, disk, pace: host.pace },
    };
    this.outputs = { 1: createOutput(1, deps), 2: createOutput(2, deps) };
  }

  spool(stream: Stream): Spool {
    return this.outputs[stream].spool;
  }

  total(stream: Stream): number {
    return this.spool(stream).total;
  }

  /** Whether nobody reads. */
  get unread(): boolean {
    return this.readers.size === 0;
  }

  /** Returns how many of the bytes are new. */
  take(stream: Stream, offset: number, data: Buffer): number {
    const before = this.total(stream);
    this.outputs[stream].take(offset, data);
    return this.total(stream) - before;
  }

  disconnected(): void {
    this.outputs[1].disconnected();
    this.outputs[2].disconnected();
  }

  recover(stdoutAcked: number, stderrAcked: number): void {
    this.outputs[1].recover(stdoutAcked);
    this.outputs[2].recover(stderrAcked);
  }

  claim(logged: Readonly<Record<Stream, number>>): void {
    this.outputs[1].claim(logged[1]);
    this.outputs[2].claim(logged[2]);
  }

  complete(stdoutBytes: number, stderrBytes: number): void {
    this.outputs[1].complete(stdoutBytes);
    this.outputs[2].complete(stderrBytes);
  }

  /** Tells the guest what is stored. */
  acknowledge(): void {
    this.outputs[1].acknowledge();
    this.outputs[2].acknowledge();
  }

  add(reader: Subscription): void {
    this.readers.add(reader);
  }

  remove(reader: Subscription): void {
    this.readers.delete(reader);
  }

  /** Gives every reader what is there for it. */
  wake(): void {
    for (const reader of [...this.readers]) reader.pump();
  }

  heartbeat(): void {
    for (const reader of this.readers) reader.heartbeat();
  }

  fail(error: DomainError): void {
    for (const reader of [...this.readers]) reader.fail(error);
  }

  /** Closes the files, unless somebody reads. */
  rest(): void {
    if (this.readers.size > 0) return;
    this.outputs[1].release();
    this.outputs[2].release();
  }
}
