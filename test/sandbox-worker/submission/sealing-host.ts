import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { inject } from 'vitest';
import type { Engine } from '../../../services/sandbox-worker/docker/engine.ts';
import { type Applied, type Applier, createApplier } from '../../../services/sandbox-worker/submission/apply.ts';
import { createManifests, type Manifests } from '../../../services/sandbox-worker/submission/manifests.ts';
import { defaultLimits, type SubmissionRules } from '../../../services/sandbox-worker/submission/rules.ts';
import {
  createSealer,
  type InvalidSealing,
  type SealedSubmission,
} from '../../../services/sandbox-worker/submission/seal.ts';
import {
  createLocalSubmissionStore,
  type SubmissionStore,
} from '../../../services/sandbox-worker/submission/submission-store.ts';
import { createSubmissionThreads } from '../../../services/sandbox-worker/submission/submission-threads.ts';
import { sharedManifests } from '../../shared-manifests.ts';
import { createScratchHost, mebibyte, type Reported, type ScratchHost, socketPath } from '../docker/scratch-host.ts';

/** Everything is allowed below /workspace, unless a test says otherwise. */
export const openRules: SubmissionRules = {
  workingDirectory: '/workspace',
  include: ['**'],
  exclude: [],
  forbid: [],
  restore: [],
  limits: defaultLimits,
};

export interface SealingHost {
  readonly host: ScratchHost;
  readonly store: SubmissionStore;
  readonly manifests: Manifests;
  readonly applier: Applier;
  /** Runs a script as the agent, to its end, in a session that then stays. */
  session(script: string, imageId: string): Promise<Reported>;
  seal(
    session: Pick<Reported, 'id'>,
    change?: Partial<SubmissionRules>,
    options?: SealOptions,
  ): Promise<SealedSubmission | InvalidSealing>;
  /** The same for one that is running already. */
  applyRunning(
    digest: string,
    imageId: string,
    change?: Partial<SubmissionRules>,
  ): Promise<{ id: string; applied: Applied }>;
  /** The same through the engine, as without root. */
  applyArchived(digest: string, imageId: string, running: boolean): Promise<{ id: string; applied: Applied }>;
  /** A fresh container of the image with the submission in it, started. */
  apply(digest: string, imageId: string, change?: Partial<SubmissionRules>): Promise<{ id: string; applied: Applied }>;
}

export interface SealOptions {
  /** Look at everything, as where overlayfs may redirect. */
  readonly compareAll?: boolean;
  /** The whole file system too. */
  readonly whole?: boolean;
  /** Through the engine, as without root. */
  readonly archived?: boolean;
}

export async function createSealingHost(): Promise<SealingHost & { engine: Engine }> {
  const host = createScratchHost();
  const engine = await host.engine({ command: ['/bin/sleep', 'infinity'] });
  const store = createLocalSubmissionStore(join(host.directory, 'submissions'));
  const manifests = createManifests({ directory: sharedManifests(inject('setup').dataDir), socketPath });
  const threads = createSubmissionThreads();
  const applier = createApplier({ manifests, store, threads });
  const limits = { cpus: 1, memoryBytes: 256 * mebibyte, diskBytes: 512 * mebibyte, pids: 64 };
  return {
    host,
    engine,
    store,
    manifests,
    applier,
    session: (script, imageId) => host.report(script, { imageId, limits }),
    async seal(session, change = {}, { compareAll = false, whole = false, archived = false } = {}) {
      const sealer = createSealer({
        engine: {
          hasLayers: !archived,
          archived: engine.archived,
          imageOf: engine.imageOf,
          layer: async (id) => ({ ...(await engine.layer(id)), ...(compareAll ? { upperIsComplete: false } : {}) }),
        },
        manifests,
        threads,
        stagingDirectory: join(host.directory, `staging-${randomBytes(4).toString('hex')}`),
      });
      const whileStill = async <T>(work: () => Promise<T>): Promise<T> => {
        await engine.pause(session.id);
        try {
          return await work();
        } finally {
          await engine.resume(session.id);
        }
      };
      return sealer.seal({ containerId: session.id, whileStill }, { ...openRules, ...change }, store, { whole });
    },
    async applyRunning(digest, imageId, change = {}) {
      const { id } = await engine.run(host.spec(imageId, { limits }));
      const { merged } = await engine.layer(id);
      return { id, applied: await applier.apply(digest, { imageId, merged }, { ...openRules, ...change }) };
    },
    async applyArchived(digest, imageId, running) {
      const staged = join(host.directory, `staged-${randomBytes(4).toString('hex')}`);
      const made = await engine.create(host.spec(imageId, { limits }));
      if (running) await made.start();
      const place = { imageId, archived: engine.archived(made.id), staged };
      const applied = await applier.apply(digest, place, openRules);
      if (!running) await made.start();
      return { id: made.id, applied };
    },
    async apply(digest, imageId, change = {}) {
      const applied: Applied[] = [];
      const fill = async (upper: string): Promise<void> => {
        applied.push(await applier.apply(digest, { imageId, upper }, { ...openRules, ...change }));
      };
      const { id } = await engine.run(host.spec(imageId, { limits, fill }));
      return { id, applied: applied[0] as Applied };
    },
  };
}

export function sealed(result: SealedSubmission | InvalidSealing): SealedSubmission {
  if (result.kind === 'sealed') return result;
  throw new Error(`expected a submission, found ${result.finding.message}`);
}
