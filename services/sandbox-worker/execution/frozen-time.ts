import { create } from '@bufbuild/protobuf';
import { type JournalRecord, JournalRecordSchema } from '../../../gen/assay/internal/v1/journal_pb.js';
import type { Journal } from './journal.ts';

/**
 * When a session stood still. None of that counts against a timeout, also not for the next worker, which finds it in the
 * journal. One that dies on the way into a standstill or out of it leaves it open until the session is taken up: in doubt
 * a command gets more time, not less.
 */
export interface FrozenTime {
  /** Whether the session stands still. */
  readonly frozen: boolean;
  freeze(): void;
  thaw(): void;
  /** Takes up what the journal of an earlier process says. */
  restore(record: JournalRecord['record']): void;
  /** How long the session did not stand still since then, in milliseconds. */
  runningSince(ms: number): number;
}

export function createFrozenTime(journal: Journal): FrozenTime {
  const over: { readonly from: number; readonly to: number }[] = [];
  let since: number | undefined;

  function begin(ms: number): void {
    since ??= ms;
  }

  function end(ms: number): void {
    if (since !== undefined) over.push({ from: since, to: ms });
    since = undefined;
  }

  function note(what: 'frozen' | 'thawed', ms: number): void {
    journal.note(create(JournalRecordSchema, { record: { case: what, value: { timeMs: BigInt(ms) } } }));
  }

  return {
    get frozen() {
      return since !== undefined;
    },
    freeze() {
      if (since !== undefined) return;
      const now = Date.now();
      begin(now);
      note('frozen', now);
    },
    thaw() {
      if (since === undefined) return;
      const now = Date.now();
      end(now);
      note('thawed', now);
    },
    restore(record) {
      if (record.case === 'frozen') begin(Number(record.value.timeMs));
      if (record.case === 'thawed') end(Number(record.value.timeMs));
    },
    runningSince(ms) {
      const now = Date.now();
      const spans = since === undefined ? over : [...over, { from: since, to: now }];
      const frozenMs = spans.reduce((sum, { from, to }) => sum + Math.max(0, to - Math.max(from, ms)), 0);
      return now - ms - frozenMs;
    },
  };
}
