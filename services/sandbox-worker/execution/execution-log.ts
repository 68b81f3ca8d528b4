import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { type JournalRecord, JournalRecordSchema } from '../../../gen/assay/internal/v1/journal_pb.js';
import { type ExecutionResult, OutputStream } from '../../../gen/assay/v1/execution_pb.js';
import type { DomainError } from '../../shared/domain-error.ts';
import type { Stream } from '../guest/frame.ts';
import { encodeDrained, encodeFinished } from './command-record.ts';
import type { DoomReason } from './doom.ts';
import type { Journal } from './journal.ts';

/** Positions in the journal; -1: there is no such record. */
export interface ExecutionPositions {
  accepted: number;
  /** It finished, or was refused. */
  ended: number;
  drained: number;
  trims: number[];
  /** The highest of all. */
  last: number;
}

/** What the session's journal is told of one execution, each thing once. */
export class ExecutionLog {
  /** How far it has the output of each stream. */
  readonly logged: Record<Stream, number> = { 1: 0, 2: 0 };
  /** Where the records are that tell how it ended. */
  readonly positions: ExecutionPositions = { accepted: 0, ended: -1, drained: -1, trims: [], last: 0 };
  private startLogged = false;
  private readonly journal: Journal;
  private readonly number: bigint;

  constructor(journal: Journal, number: bigint) {
    this.journal = journal;
    this.number = number;
  }

  /** Takes up what an earlier process told. */
  restore(record: JournalRecord['record'], position: number): void {
    if (record.case === 'finished' || record.case === 'refused') this.endedAt(position);
    if (record.case === 'drained') this.drainedAt(position);
    if (record.case === 'trimmed') this.trimmedAt(position);
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
    const value = { reason, message, timeMs: BigInt(Date.now()) };
    this.endedAt(this.journal.note(this.record({ case: 'refused', value })));
  }

  finished(result: ExecutionResult, startedMs: number | undefined): void {
    this.endedAt(this.journal.appendSoon(encodeFinished(this.number, result, startedMs)));
  }

  drained(stdoutBytes: number, stderrBytes: number): void {
    this.drainedAt(this.journal.appendSoon(encodeDrained(this.number, stdoutBytes, stderrBytes)));
  }

  trimmed(stream: Stream, from: number, to: number): void {
    const name = stream === 1 ? OutputStream.STDOUT : OutputStream.STDERR;
    const value = { stream: name, from: BigInt(from), to: BigInt(to) };
    this.trimmedAt(this.journal.append(this.record({ case: 'trimmed', value })));
  }

  private endedAt(position: number): void {
    this.positions.ended = position;
    this.positions.last = Math.max(this.positions.last, position);
  }

  private drainedAt(position: number): void {
    this.positions.drained = position;
    this.positions.last = Math.max(this.positions.last, position);
  }

  private trimmedAt(position: number): void {
    this.positions.trims.push(position);
    this.positions.last = Math.max(this.positions.last, position);
  }

  private record(record: { case: string; value: object }): JournalRecord {
    return create(JournalRecordSchema, { number: this.number, record } as never) as JournalRecord;
  }
}
