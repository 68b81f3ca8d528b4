import { TranscriptState } from '../../../gen/assay/v1/session_pb.js';
import type { Logger } from '../../shared/log.ts';
import type { TranscriptOutcome } from '../../shared/session-state.ts';
import type { TranscriptStore } from '../../shared/store/transcript-store.ts';
import { type CompleteLog, writeTranscript } from './transcript.ts';

export interface ArchiveDeps {
  readonly store: TranscriptStore;
  /** Of the output in one transcript. */
  readonly limitBytes: number;
  /** For how long after the end of a session it is tried. */
  readonly patienceMs: number;
  readonly log: Logger;
}

/** Puts the logs of ended sessions where they can be read when nothing else of them is left. */
export interface Archive {
  /** One try, which ends within a time of its own. PENDING: try again later; the log must stay until then. */
  keep(project: string, sessionId: string, endedMs: number, log: CompleteLog): Promise<TranscriptOutcome>;
  /** Nothing is left to be archived: it was done before, or cannot be done any more. */
  find(project: string, sessionId: string): Promise<TranscriptOutcome>;
}

/** Closing a session waits no longer than this for its transcript. */
const tryMs = 20_000;

export function createArchive({ store, limitBytes, patienceMs, log: logger }: ArchiveDeps): Archive {
  const stored: TranscriptOutcome = { state: TranscriptState.STORED, message: '' };

  function failed(sessionId: string, endedMs: number, error: unknown): TranscriptOutcome {
    const message = `the transcript could not be stored: ${(error as Error).message}`;
    const over = Date.now() - endedMs >= patienceMs;
    logger.warn({ session_id: sessionId, err: error }, over ? 'a transcript is lost' : 'a transcript must wait');
    return { state: over ? TranscriptState.MISSING : TranscriptState.PENDING, message };
  }

  return {
    async keep(project, sessionId, endedMs, log) {
      try {
        await store.put(project, sessionId, within(tryMs, writeTranscript(log, limitBytes)));
        return stored;
      } catch (error) {
        return failed(sessionId, endedMs, error);
      }
    },
    async find(project, sessionId) {
      const found = await store.get(project, sessionId);
      await found?.return();
      if (found !== undefined) return stored;
      return { state: TranscriptState.MISSING, message: 'the worker lost the log before it was archived' };
    },
  };
}

async function* within<T>(ms: number, pieces: AsyncGenerator<T>): AsyncGenerator<T> {
  const end = performance.now() + ms;
  for await (const piece of pieces) {
    if (performance.now() > end) throw new Error(`it took longer than ${ms} ms`);
    yield piece;
  }
}
