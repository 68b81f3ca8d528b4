import { create } from '@bufbuild/protobuf';
import { timestampNow } from '@bufbuild/protobuf/wkt';
import { type JournalRecord, JournalRecordSchema } from '../../../gen/assay/internal/v1/journal_pb.js';
import { type SessionEvent, SessionEventSchema, ShellChange } from '../../../gen/assay/v1/session_pb.js';

/** What the session's log has of a shell, so that nothing is told twice when a guest repeats it. */
export interface ToldOfShell {
  timesOpened: number;
  closed: boolean;
}

/** The record of a shell that is open, or undefined if the log has this opening. */
export function openedRecord(
  shell: { readonly number: bigint; readonly id: string },
  timesOpened: number,
  told: ToldOfShell,
): JournalRecord | undefined {
  if (timesOpened <= told.timesOpened) return undefined;
  const change = told.timesOpened === 0 ? ShellChange.OPENED : ShellChange.REOPENED;
  told.timesOpened = timesOpened;
  return recordOf(shell, change, timesOpened);
}

/** The record of a shell that was closed, or undefined if the log has it, or never had the shell. */
export function closedRecord(
  shell: { readonly number: bigint; readonly id: string },
  told: ToldOfShell,
): JournalRecord | undefined {
  if (told.closed || told.timesOpened === 0) return undefined;
  told.closed = true;
  return recordOf(shell, ShellChange.CLOSED, told.timesOpened);
}

/** Takes up what the journal of an earlier process has. */
export function restoreTold(told: ToldOfShell, { event }: SessionEvent): void {
  if (event.case !== 'shell') return;
  told.timesOpened = event.value.openCount;
  told.closed = event.value.change === ShellChange.CLOSED;
}

function recordOf(
  { number, id }: { readonly number: bigint; readonly id: string },
  change: ShellChange,
  timesOpened: number,
): JournalRecord {
  const value = create(SessionEventSchema, {
    time: timestampNow(),
    event: { case: 'shell', value: { shellId: id, change, openCount: timesOpened } },
  });
  return create(JournalRecordSchema, { number, record: { case: 'event', value } });
}
