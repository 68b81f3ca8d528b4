import type { Session } from '../../../gen/assay/v1/session_pb.js';
import { SessionState } from '../../../gen/assay/v1/session_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { Engine, SandboxImage } from '../docker/engine.ts';
import type { WorkerSamples } from '../sample/worker-samples.ts';
import type { AllowedImages } from './allowed-images.ts';
import type { RecordKeeper } from './record-keeper.ts';

/** The images that sessions ask for: one by its name, the base image, or that of a sample, which may have to be built. */
export interface SessionImages {
  /** Of a session without a sample, or with one whose image is prepared. */
  of(session: Session): Promise<SandboxImage>;
  /** Under which name the engine has it. */
  nameOf(session: Session): string;
  /**
   * Makes the image of a CREATING session's sample, and has the record say so while it takes its time. Not in the
   * session's turn: it may take minutes, and the session can be closed meanwhile. Resolves with what went wrong.
   */
  prepare(project: string, sessionId: string): Promise<unknown>;
  /** Whether it is being made. */
  preparing(sessionId: string): boolean;
  /** The session is closed: nobody needs the image on its behalf. */
  cancel(sessionId: string): void;
}

export interface SessionImagesDeps {
  readonly engine: Pick<Engine, 'image'>;
  readonly samples: WorkerSamples;
  readonly records: RecordKeeper;
  readonly baseImage: string;
  /** Of those that sessions ask for by name. */
  readonly allowed: AllowedImages;
}

export function createSessionImages(deps: SessionImagesDeps): SessionImages {
  const { engine, samples, records, baseImage, allowed } = deps;
  const running = new Map<string, { prepared: Promise<unknown>; leaving: AbortController }>();

  const ensure = async (project: string, sessionId: string, signal: AbortSignal): Promise<unknown> => {
    try {
      const session = (await records.get(project, sessionId))?.session;
      if (session?.sample === undefined || session.state !== SessionState.CREATING) return undefined;
      if (session.forkedFrom !== '') return undefined;
      const { name, contentDigest } = session.sample;
      let told = false;
      const tell = (): void => {
        if (told) return;
        told = true;
        const message = `building the image of ${name?.datasetId}/${name?.sampleId}, once`;
        records.put(project, sessionId, { type: 'building', message }).catch(() => {});
      };
      await samples.images.ensure(await samples.cache.folder(contentDigest), project, tell, signal);
      return undefined;
    } catch (error) {
      return error;
    }
  };
  const nameOf = ({ image, sample }: Session): string => {
    if (sample !== undefined) return samples.images.nameOf(sample.imageDigest);
    return image || baseImage;
  };
  return {
    nameOf,
    async of(session) {
      if (session.sample === undefined && session.image !== '') allowed(session.image);
      return engine.image(nameOf(session));
    },
    prepare(project, sessionId) {
      const known = running.get(sessionId);
      if (known !== undefined) return known.prepared;
      const leaving = new AbortController();
      const prepared = ensure(project, sessionId, leaving.signal).finally(() => running.delete(sessionId));
      running.set(sessionId, { prepared, leaving });
      return prepared;
    },
    preparing: (sessionId) => running.has(sessionId),
    cancel(sessionId) {
      const message = `session ${sessionId} was closed before its image was built`;
      running.get(sessionId)?.leaving.abort(new DomainError('SESSION_ENDED', message));
    },
  };
}
