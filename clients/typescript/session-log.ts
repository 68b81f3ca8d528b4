import type { Client } from '@connectrpc/connect';
import type { ExecutionService } from '../../gen/assay/v1/execution_pb.js';
import type { SessionService } from '../../gen/assay/v1/session_pb.js';
import { AssayError, toAssayError } from './assay-error.ts';
import type { Caller } from './caller.ts';
import { type SessionEvent, type TranscriptEvent, toLoggedEvent, toSessionEvent } from './session-event.ts';
import { toDate } from './time.ts';

export interface FollowOptions {
  /** Go on after the event that carried this cursor. Absent: from the beginning of the session. */
  cursor?: string;
  /** False: leave output and gaps out. */
  output?: boolean;
  /** Stops following. */
  signal?: AbortSignal;
}

export interface TranscriptOptions extends FollowOptions {
  /** Only this execution. */
  executionId?: string;
}

/** What happened in one session. */
export interface SessionLog {
  follow(options?: FollowOptions): AsyncGenerator<SessionEvent, void, undefined>;
  transcript(options?: TranscriptOptions): AsyncGenerator<TranscriptEvent, void, undefined>;
}

export function createSessionLog(
  sessions: Client<typeof SessionService>,
  executions: Client<typeof ExecutionService>,
  caller: Caller,
  sessionId: string,
): SessionLog {
  return {
    follow({ output = true, ...options } = {}) {
      const withoutOutput = !output;
      return resumed(caller, options, async function* (cursor, signal) {
        const query = { sessionId, cursor, withoutOutput };
        for await (const { event, sessionState } of sessions.followSession(query, { signal })) {
          const known = event && toSessionEvent(event, sessionState);
          if (known !== undefined) yield known;
        }
      });
    },
    transcript({ output = true, executionId = '', ...options } = {}) {
      const query = { sessionId, executionId, withoutOutput: !output };
      return resumed(caller, options, async function* (cursor, signal) {
        for await (const { time, cursor: next, event } of executions.getTranscript({ ...query, cursor }, { signal })) {
          const known = event && toLoggedEvent(event);
          if (known !== undefined) yield { time: toDate(time), cursor: next, ...known };
        }
      });
    },
  };
}

/** Reads a log to its end across broken streams and restarts: whenever one breaks, opens another after the last event. */
async function* resumed<T extends { readonly cursor: string }>(
  caller: Caller,
  options: { cursor?: string; signal?: AbortSignal },
  open: (cursor: string, signal: AbortSignal) => AsyncIterable<T>,
): AsyncGenerator<T, void, undefined> {
  const patience = caller.patience();
  let cursor = options.cursor ?? '';
  for (;;) {
    const leaving = new AbortController();
    const signal = options.signal === undefined ? leaving.signal : AbortSignal.any([options.signal, leaving.signal]);
    try {
      options.signal?.throwIfAborted();
      for await (const event of open(cursor, signal)) {
        patience.answered();
        patience.progressed();
        if (event.cursor !== '') cursor = event.cursor;
        yield event;
      }
      return;
    } catch (error) {
      if (options.signal?.aborted) throw stopped(options.signal);
      await patience.wait(toAssayError(error, caller.endpoint), options.signal);
    } finally {
      // Whoever leaves the loop leaves the call open otherwise.
      leaving.abort();
    }
  }
}

function stopped(signal: AbortSignal): AssayError {
  const message = 'the caller stopped following; the session goes on';
  return new AssayError('DETACHED', message, { code: 'CANCELED', cause: signal.reason });
}
