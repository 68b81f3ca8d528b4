import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { JournalRecordSchema } from '../../../gen/assay/internal/v1/journal_pb.js';
import { OutputStream } from '../../../gen/assay/v1/execution_pb.js';
import type { SessionEvent } from '../../../gen/assay/v1/session_pb.js';
import { type Journal, openJournal } from '../../../services/sandbox-worker/execution/journal.ts';
import { createSpool, minKeptBytes, type Spool } from '../../../services/sandbox-worker/execution/spool.ts';
import type { Stream } from '../../../services/sandbox-worker/guest/frame.ts';
import { createLogReader, type LogQuery } from '../../../services/sandbox-worker/log/log-reader.ts';

/** A journal and spools, written as executions write them, with everything remembered that was written. */
export interface WrittenLog {
  readonly journal: Journal;
  readonly source: { path: string; execution(number: bigint): Made | undefined };
  start(number: bigint, summary?: string): void;
  write(number: bigint, stream: Stream, data: Buffer): void;
  finish(number: bigint): void;
  /** What the streams of an execution hash to. */
  hash(number: bigint, stream: Stream): string;
}

export interface Made {
  readonly id: string;
  readonly spec: { readonly summary: string; readonly shellId: string; readonly keptBytes: number };
  drained: boolean;
  spool(stream: Stream): Spool;
  rest(): void;
}

export function writeLog(directory: string): WrittenLog {
  const path = join(directory, 'journal');
  const { journal } = openJournal(path);
  const executions = new Map<bigint, Made>();
  const hashes = new Map<string, ReturnType<typeof createHash>>();
  const made = (number: bigint): Made => {
    const execution = executions.get(number);
    if (execution === undefined) throw new Error(`execution ${number} was not started`);
    return execution;
  };
  return {
    journal,
    source: { path, execution: (number) => executions.get(number) },
    start(number, summary = `command ${number}`) {
      const spool = (stream: Stream) => createSpool(() => join(directory, `${number}.${stream}`), minKeptBytes);
      const spools = { 1: spool(1), 2: spool(2) };
      executions.set(number, {
        id: `e${number}`,
        spec: { summary, shellId: '', keptBytes: minKeptBytes },
        drained: false,
        spool: (stream) => spools[stream],
        rest() {
          spools[1].release();
          spools[2].release();
        },
      });
      journal.started(number, Date.now());
    },
    write(number, stream, data) {
      const spool = made(number).spool(stream);
      const from = spool.total;
      spool.write(from, data);
      journal.output(number, stream, from, spool.total);
      const key = `${number}.${stream}`;
      hashes.set(key, (hashes.get(key) ?? createHash('sha256')).update(data));
    },
    finish(number) {
      const record = { case: 'finished' as const, value: { result: { exitCode: Number(number % 100n) } } };
      journal.append(create(JournalRecordSchema, { number, record }));
      made(number).drained = true;
    },
    hash: (number, stream) => hashes.get(`${number}.${stream}`)?.copy().digest('hex') ?? sha256(Buffer.alloc(0)),
  };
}

export function sha256(data: Uint8Array): string {
  return createHash('sha256').update(data).digest('hex');
}

export const everything: LogQuery = {
  cursor: { position: 0, offset: 0 },
  withoutOutput: false,
  number: undefined,
};

/** All that is in the log now, from the query's cursor on. */
export function readAll(log: WrittenLog, query: Partial<LogQuery> = {}): SessionEvent[] {
  const reader = createLogReader(log.source, { ...everything, ...query });
  try {
    return [...reader.read(log.journal.size)].filter((event) => event !== undefined);
  } finally {
    reader.close();
  }
}

/** Puts the output in events together. Throws where a byte is missing or comes twice. */
export function collect(events: readonly SessionEvent[]) {
  const streams = new Map<string, { next: number; parts: Uint8Array[] }>();
  const gaps: { key: string; from: number; to: number }[] = [];
  const words: string[] = [];
  for (const { event } of events) {
    if (event.case === 'state') words.push(`state ${event.value.state}`);
    if (event.case !== 'execution') continue;
    const { executionId, event: what } = event.value;
    const take = (name: string, from: number, to: number, data?: Uint8Array) => {
      const key = `${executionId}.${name}`;
      const stream = streams.get(key) ?? { next: 0, parts: [] };
      streams.set(key, stream);
      if (from !== stream.next) throw new Error(`${key} goes on at ${from}, expected ${stream.next}`);
      stream.next = to;
      if (data === undefined) gaps.push({ key, from, to });
      else stream.parts.push(data);
    };
    if (what.case === 'stdout' || what.case === 'stderr') {
      const offset = Number(what.value.offset);
      take(what.case, offset, offset + what.value.data.length, what.value.data);
    } else if (what.case === 'gap') {
      const name = what.value.stream === OutputStream.STDOUT ? 'stdout' : 'stderr';
      take(name, Number(what.value.startOffset), Number(what.value.endOffset));
    } else words.push(`${executionId} ${what.case}`);
  }
  const data = (key: string): Buffer => Buffer.concat(streams.get(key)?.parts ?? []);
  return { words, gaps, data, ends: (key: string) => streams.get(key)?.next ?? 0 };
}
