import type { Session } from '../../../gen/assay/v1/session_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { ContainerFiles, Engine, SandboxImage } from '../docker/engine.ts';
import type { Sandbox } from './sandbox.ts';
import { whileStill } from './standstill.ts';

/** What a fork begins with. */
export interface Origin {
  readonly image: SandboxImage;
  readonly files: ContainerFiles;
}

export interface ForkDeps {
  readonly engine: Engine;
  readonly live: ReadonlyMap<string, Sandbox>;
  /** One thing at a time happens to a session. */
  readonly exclusively: <T>(sessionId: string, work: () => Promise<T>) => Promise<T>;
}

/**
 * The image and the files of the session that another is forked from. The image is the one that runs there, by id,
 * whatever its name stands for by now.
 */
export async function originOf(deps: ForkDeps, project: string, session: Session): Promise<Origin> {
  const { engine, live, exclusively } = deps;
  const sourceId = session.forkedFrom;
  const source = (): Sandbox => {
    const sandbox = live.get(sourceId);
    if (sandbox !== undefined && sandbox.project === project) return sandbox;
    throw new DomainError('SESSION_ENDED', `session ${sourceId}, which was to be forked, has ended`);
  };
  // In turn: after a restart the source may still be on its way back.
  const { imageId, containerId } = await exclusively(sourceId, async () => source().file);
  return {
    image: await engine.image(imageId),
    files: {
      containerId,
      whileStill: (copy) => exclusively(sourceId, () => whileStill(engine, source(), copy)),
    },
  };
}
