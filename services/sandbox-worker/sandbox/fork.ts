import type { Session } from '../../../gen/assay/v1/session_pb.js';
import { abortable } from '../../shared/abortable.ts';
import { DomainError } from '../../shared/domain-error.ts';
import type { ContainerFiles, Engine, SandboxImage } from '../docker/engine.ts';
import type { Sandbox } from './sandbox.ts';
import { whileStill } from './standstill.ts';

/** What a fork begins with. */
export interface Origin {
  readonly image: SandboxImage;
  readonly files: ContainerFiles;
}

/** The copies that forks wait for. A copy ends with the session that it is made of, and with the one that it is made for. */
export interface ForkCopies {
  begin(fork: Session): AbortSignal;
  end(forkId: string): void;
  /** The session is closed: nobody needs a copy of it or for it. */
  cancel(sessionId: string): void;
  /** The session is lost, and its files with it. */
  cancelOf(sourceId: string): void;
  cancelAll(why: Error): void;
}

export function createForkCopies(): ForkCopies {
  const copies = new Map<string, { sourceId: string; leaving: AbortController }>();
  const cancelOf = (endedId: string): void => {
    for (const { sourceId, leaving } of copies.values()) {
      if (sourceId === endedId) leaving.abort(endedWhileCopied(endedId));
    }
  };
  return {
    begin({ sessionId, forkedFrom }) {
      const leaving = new AbortController();
      copies.set(sessionId, { sourceId: forkedFrom, leaving });
      return leaving.signal;
    },
    end: (forkId) => void copies.delete(forkId),
    cancel(sessionId) {
      copies.get(sessionId)?.leaving.abort(endedWhileCopied(sessionId));
      cancelOf(sessionId);
    },
    cancelOf,
    cancelAll(why) {
      for (const { leaving } of copies.values()) leaving.abort(why);
    },
  };
}

function endedWhileCopied(sessionId: string): DomainError {
  const message = `session ${sessionId} ended while files were copied for a fork`;
  return new DomainError('SESSION_ENDED', message, { session_id: sessionId });
}

/** Whether a fork was not made because it was closed itself, and not its source. */
export function wasClosed(forkId: string, error: unknown): boolean {
  return error instanceof DomainError && error.reason === 'SESSION_ENDED' && error.metadata.session_id === forkId;
}

export interface ForkDeps {
  readonly engine: Engine;
  readonly live: ReadonlyMap<string, Sandbox>;
  readonly copies: Pick<ForkCopies, 'begin'>;
  /** One thing at a time happens to a session. */
  readonly exclusively: <T>(sessionId: string, work: () => Promise<T>) => Promise<T>;
}

/**
 * The image and the files of the session that another is forked from. The image is the one that runs there, by id,
 * whatever its name stands for by now.
 */
export async function originOf(deps: ForkDeps, project: string, session: Session): Promise<Origin> {
  const { engine, live, copies, exclusively } = deps;
  const signal = copies.begin(session);
  const sourceId = session.forkedFrom;
  const source = (): Sandbox => {
    const sandbox = live.get(sourceId);
    if (sandbox !== undefined && sandbox.project === project) return sandbox;
    throw new DomainError('SESSION_ENDED', `session ${sourceId}, which was to be forked, has ended`);
  };
  // In turn: after a restart the source may still be on its way back.
  const { imageId, containerId } = await abortable(
    signal,
    exclusively(sourceId, async () => source().file),
  );
  return {
    image: await engine.image(imageId),
    files: {
      containerId,
      signal,
      async whileStill(copy) {
        const turn = Promise.withResolvers<void>();
        const copied = exclusively(sourceId, async () => {
          signal.throwIfAborted();
          turn.resolve();
          await whileStill(engine, source(), copy);
        });
        copied.catch(() => {});
        // A fork that is closed while its source is busy does not wait for it. Once the copy has begun its end counts.
        await abortable(signal, turn.promise);
        await copied;
      },
    },
  };
}
