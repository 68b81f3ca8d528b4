import { create } from '@bufbuild/protobuf';
import { timestampNow } from '@bufbuild/protobuf/wkt';
import { type JournalRecord, JournalRecordSchema } from '../../../gen/assay/internal/v1/journal_pb.js';
import {
  type PauseReason,
  type SessionEvent,
  SessionEventSchema,
  SessionState,
  SessionStateChangedSchema,
  type VerificationChanged,
} from '../../../gen/assay/v1/session_pb.js';
import type { VerificationState } from '../../../gen/assay/v1/verification_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { EndCause, Hold } from '../../shared/session-state.ts';
import { isFinal } from '../../shared/verification/verification-state.ts';
import type { Journal } from '../execution/journal.ts';
import { createLogReader, type LogQuery, type LogReader, type LogSource } from './log-reader.ts';

const heartbeatMs = 10_000;
/** How soon to look again for output that the guest repeats after a restart: nothing is written when it is back. */
const againMs = 100;

/** What happened in one live session: told to it here, and read by any number of followers from disk. */
export interface SessionLog {
  /** Puts an event that is no execution's in its place: a shell that was opened, for one. */
  tell(event: SessionEvent['event']): void;
  /** The sandbox is ready. Told once, however often it is taken up. */
  ready(): void;
  /** A verification is at this state. Told once, however often it is heard of. */
  verification(changed: VerificationChanged): void;
  /** Events from the cursor on. With `untilNow` it returns after what is there now; else it throws when the log closes. */
  follow(query: LogQuery & { untilNow: boolean }, signal: AbortSignal): AsyncGenerator<SessionEvent, void>;
  /** Ends the followers; they read on elsewhere. */
  close(error: DomainError): void;
}

export function createSessionLog(
  journal: Journal,
  records: readonly JournalRecord[],
  source: LogSource,
  turn: () => Promise<void> | undefined = () => undefined,
): SessionLog {
  const closing = new AbortController();
  let readyTold = records.some(({ record }) => record.case === 'event' && isReady(record.value));

  const states = new Map<string, VerificationState>();
  for (const { record } of records) {
    if (record.case === 'event' && record.value.event.case === 'verification') noteState(record.value.event.value);
  }

  /** Whether this is news. Nothing is after an end, however late it is heard of. */
  function noteState({ verificationId, state }: VerificationChanged): boolean {
    const before = states.get(verificationId);
    if (before === state || (before !== undefined && isFinal(before))) return false;
    states.set(verificationId, state);
    return true;
  }

  function tell(event: SessionEvent['event']): void {
    const told = create(SessionEventSchema, { time: timestampNow(), event });
    journal.note(create(JournalRecordSchema, { record: { case: 'event', value: told } }));
  }

  /** Resolves when the journal has grown beyond `size`, when the time is up, or at the end. */
  function grown(size: number, ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const finish = (): void => {
        clearTimeout(timer);
        stop();
        signal.removeEventListener('abort', finish);
        resolve();
      };
      const stop = journal.onWrite(() => journal.size > size && finish());
      const timer = setTimeout(finish, ms).unref();
      signal.addEventListener('abort', finish);
      if (signal.aborted || journal.size > size) finish();
    });
  }

  async function* followWith(reader: LogReader, signal: AbortSignal): AsyncGenerator<SessionEvent, void> {
    for (let quietSince = performance.now(); !signal.aborted; ) {
      const { size } = journal;
      for (const event of reader.read(size)) {
        if (event !== undefined) yield event;
        const wait = turn();
        if (wait !== undefined) await wait;
        // Nothing may be read once the descriptor is closed.
        if (signal.aborted) return;
        quietSince = performance.now();
      }
      const leftMs = heartbeatMs - (performance.now() - quietSince);
      if (leftMs <= 0) {
        yield create(SessionEventSchema, {
          time: timestampNow(),
          event: { case: 'heartbeat', value: {} },
        });
        quietSince = performance.now();
      } else if (reader.cursor.position < size) await grown(journal.size, Math.min(againMs, leftMs), signal);
      else await grown(size, leftMs, signal);
    }
  }

  /** Output that is not back yet is waited for here too. */
  async function* readTo(end: number, reader: LogReader, signal: AbortSignal): AsyncGenerator<SessionEvent, void> {
    while (!signal.aborted && reader.cursor.position < end) {
      for (const event of reader.read(end)) {
        if (event !== undefined) yield event;
        const wait = turn();
        if (wait !== undefined) await wait;
        if (signal.aborted) return;
      }
      if (reader.cursor.position < end) await grown(journal.size, againMs, signal);
    }
  }

  return {
    tell,
    ready() {
      if (!readyTold) tell({ case: 'state', value: stateOf(SessionState.READY) });
      readyTold = true;
    },
    verification(value) {
      if (noteState(value)) tell({ case: 'verification', value });
    },
    async *follow(query, signal) {
      closing.signal.throwIfAborted();
      // What a caller was told before it asked is to be found.
      if (query.untilNow) journal.flush();
      const { size } = journal;
      if (query.cursor.position > size) {
        throw new DomainError('INVALID_CURSOR', 'cursor: beyond the end of the log', { field: 'cursor' });
      }
      const either = AbortSignal.any([signal, closing.signal]);
      const reader = createLogReader(source, query);
      // A caller that vanishes may leave this parked for ever: the descriptor is freed from the signal.
      either.addEventListener('abort', reader.close);
      try {
        yield* query.untilNow ? readTo(size, reader, either) : followWith(reader, either);
      } finally {
        either.removeEventListener('abort', reader.close);
        reader.close();
      }
      closing.signal.throwIfAborted();
    },
    close: (error) => closing.abort(error),
  };
}

/** A state as the log tells it. */
export function stateOf(
  state: SessionState,
  more: Partial<EndCause> & Partial<Hold | { pauseReason: PauseReason }> & { paused?: boolean } = {},
): Extract<SessionEvent['event'], { case: 'state' }>['value'] {
  return create(SessionStateChangedSchema, { state, ...more });
}

function isReady({ event }: SessionEvent): boolean {
  return event.case === 'state' && event.value.state === SessionState.READY;
}
