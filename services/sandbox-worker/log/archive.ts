import { TranscriptState } from '../../../gen/assay/v1/session_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { Logger } from '../../shared/log.ts';
import type { TranscriptOutcome } from '../../shared/session-state.ts';
import type { TranscriptStore } from '../../shared/store/transcript-store.ts';
import type { WorkShares } from '../../shared/work-shares.ts';
import { createSemaphore } from '../docker/semaphore.ts';
import { type CompleteLog, transcriptBytes, writeTranscript } from './transcript.ts';

export interface ArchiveDeps {
  readonly store: TranscriptStore;
  /** Of the output in one transcript. */
  readonly limitBytes: number;
  /** For how long after the end of a session it is tried. */
  readonly patienceMs: number;
  readonly shares: Pick<WorkShares, 'turn'>;
  /** Milliseconds that only ever grow. */
  readonly now?: () => number;
  readonly log: Logger;
}

/** A session that has ended, whose log is to be archived. */
export interface EndedSession {
  readonly project: string;
  readonly sessionId: string;
  readonly endedMs: number;
  /** Opens its log, when it is this one's turn. Undefined: there is none any more. */
  readonly open: () => CompleteLog | undefined;
}

/** Puts the logs of ended sessions where they can be read when nothing else of them is left. */
export interface Archive {
  /**
   * One try. PENDING: try again later; the log must stay until then. With `withinMs` the try ends after that time, whatever has been
   * stored by then: somebody waits. Without, it goes on for as long as the store takes what it is given: a long transcript
   * of a project that waits for its turns may take minutes.
   */
  keep(session: EndedSession, withinMs?: number): Promise<TranscriptOutcome>;
  /** Ends the tries that nobody waits for: PENDING, for the next start. */
  stop(): void;
}

/** Transcripts that are written at one time: each has a log open, and those that share the store finish sooner one by one. */
const writers = 8;
/** Of one project, so that the first of another need not wait. */
const writersOfProject = 6;

export function createArchive(deps: ArchiveDeps): Archive {
  const { store, limitBytes, patienceMs, shares, log: logger, now = () => performance.now() } = deps;
  const stored: TranscriptOutcome = { state: TranscriptState.STORED, message: '' };
  const writing = createSemaphore(writers, () => writersOfProject);
  const stopped = new AbortController();

  function failed({ sessionId, endedMs }: EndedSession, error: unknown): TranscriptOutcome {
    const message = `the transcript could not be stored: ${(error as Error).message}`;
    const over = Date.now() - endedMs >= patienceMs && !stopped.signal.aborted;
    logger.warn({ session_id: sessionId, err: error }, over ? 'a transcript is lost' : 'a transcript must wait');
    return { state: over ? TranscriptState.MISSING : TranscriptState.PENDING, message };
  }

  /** Nothing is left to be archived: it was done before, or cannot be done any more. */
  async function find({ project, sessionId }: EndedSession): Promise<TranscriptOutcome> {
    const found = await store.get(project, sessionId);
    await found?.return();
    if (found !== undefined) return stored;
    return { state: TranscriptState.MISSING, message: 'the worker lost the log before it was archived' };
  }

  async function write({ project, sessionId, open }: EndedSession, check: () => void): Promise<'stored' | 'gone'> {
    check();
    const log = open();
    if (log === undefined) return 'gone';
    const pieces = writeTranscript(log, limitBytes, () => shares.turn(project));
    await store.put(project, sessionId, checked(pieces, check), transcriptBytes(log, limitBytes));
    return 'stored';
  }

  return {
    async keep(session, withinMs = Number.POSITIVE_INFINITY) {
      const end = now() + withinMs;
      // One of ours: the store must not tell it as its own silence.
      const message = `writing it took longer than the ${withinMs / 1_000} s that an ending session waits; its worker goes on with it`;
      const late = new DomainError('DEADLINE_EXCEEDED', message);
      const check = (): void => {
        if (withinMs === Number.POSITIVE_INFINITY) stopped.signal.throwIfAborted();
        else if (now() >= end) throw late;
      };
      const inLine = Promise.withResolvers<never>();
      const timer = Number.isFinite(withinMs) ? setTimeout(() => inLine.reject(late), withinMs) : undefined;
      const written = writing(() => {
        clearTimeout(timer);
        return write(session, check);
      }, session.project);
      try {
        const outcome = await Promise.race([written, inLine.promise]);
        if (outcome === 'stored') return stored;
      } catch (error) {
        return failed(session, error);
      }
      return find(session);
    },
    stop: () => stopped.abort(new Error('the worker stops')),
  };
}

/** The pieces, as long as the check throws nothing. */
async function* checked<T>(pieces: AsyncGenerator<T>, check: () => void): AsyncGenerator<T> {
  for await (const piece of pieces) {
    check();
    yield piece;
  }
}
