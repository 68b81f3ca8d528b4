import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { type ExecutionResult, OutputStream } from '../../../gen/assay/v1/execution_pb.js';
import { type JournalRecord, JournalRecordSchema } from '../../../gen/assay/worker/v1/worker_pb.js';
import type { DomainError } from '../../shared/domain-error.ts';
import type { Stream } from '../guest/frame.ts';
import { encodeDrained, encodeFinished } from './command-record.ts';
import type { DoomReason } from './doom.ts';
import type { Journal } from './journal.ts';

/** What the session's journal is told of one execution, each thing once. */
export class ExecutionLog {
  /** How far it has the output of each stream. */
  readonly logged: Record<Stream, number> = { 1: 0, 2: 0 };
  private startLogged = false;
  private readonly journal: Journal;
  private readonly number: bigint;

  constructor(journal: Journal, number: bigint) {
    this.journal = journal;
    this.number = number;
  }

  /** Takes up what an earlier process told. */
  restore(record: JournalRecord['record']): void {
    if (record.case === 'started') this.startLogged = true;
    if (record.case === 'output') this.logged[record.value.stream === 1 ? 1 : 2] = Number(record.value.to);
  }

  sent(guestNumber: bigint, ms: number): void {
    this.journal.append(this.record({ case: 'sent', value: { guestNumber, time: timestampFromMs(ms) } }));
  }

  started(ms: number): void {
    if (this.startLogged) return;
    this.startLogged = true;
    this.journal.started(this.number, ms);
  }

  /** So much of a stream is stored. */
  output(stream: Stream, total: number): void {
    const from = this.logged[stream];
    if (total <= from) return;
    this.journal.output(this.number, stream, from, total);
    this.logged[stream] = total;
  }

  doomed(reason: DoomReason): void {
    this.journal.note(this.record({ case: 'doomed', value: { reason } }));
  }

  refused({ reason, message }: DomainError): void {
    this.journal.note(this.record({ case: 'refused', value: { reason, message, timeMs: BigInt(Date.now()) } }));
  }

  finished(result: ExecutionResult, startedMs: number | undefined): void {
    this.journal.appendSoon(encodeFinished(this.number, result, startedMs));
  }

  drained(stdoutBytes: number, stderrBytes: number): void {
    this.journal.appendSoon(encodeDrained(this.number, stdoutBytes, stderrBytes));
  }

  trimmed(stream: Stream, from: number, to: number): void {
    const name = stream === 1 ? OutputStream.STDOUT : OutputStream.STDERR;
    this.journal.append(this.record({ case: 'trimmed', value: { stream: name, from: BigInt(from), to: BigInt(to) } }));
  }

  private record(record: { case: string; value: object }): JournalRecord {
    return create(JournalRecordSchema, { number: this.number, record } as never) as JournalRecord;
  }
}
