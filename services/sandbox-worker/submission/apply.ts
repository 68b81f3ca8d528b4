import { DomainError } from '../../shared/domain-error.ts';
import type { ApplyNews, ApplyPlace } from './apply-work.ts';
import type { Manifests } from './manifests.ts';
import type { SubmissionRules } from './rules.ts';
import type { SubmissionStore } from './submission-store.ts';
import type { SubmissionThreads } from './submission-threads.ts';

export type Applied = ApplyNews;

export interface Applier {
  /**
   * Applies a stored submission to a container of the image in which nothing ran yet. One for which the answer is
   * `invalid`, or that failed, is in between two states and must be thrown away.
   */
  apply(digest: string, target: ApplyTarget, rules: SubmissionRules, how?: ApplyHow): Promise<Applied>;
}

export type ApplyTarget = ApplyPlace & { readonly imageId: string };

export interface ApplyHow {
  /** Whether everybody may read what the owner may, so that tests of another user can load it. */
  readonly opened: boolean;
  /** Whether the container's disk has a limit: then what fills it is the submission, else the host's is full. */
  readonly limited: boolean;
  /** Whose grading it is: projects take turns. */
  readonly project?: string | undefined;
}

export interface ApplyDeps {
  readonly manifests: Manifests;
  readonly store: Pick<SubmissionStore, 'fetch'>;
  readonly threads: SubmissionThreads;
  readonly timeoutMs?: number;
}

export function createApplier({ manifests, store, threads, timeoutMs = 120_000 }: ApplyDeps): Applier {
  return {
    async apply(digest, { imageId, ...place }, rules, { project, ...how } = { opened: false, limited: true }) {
      const manifest = await manifests.of(imageId);
      const local = await store.fetch(digest);
      if (local === undefined) throw failed(new Error(`submission ${digest} is not in the store`));
      const order = { file: local.file, digest, place, imageId, manifest, rules, ...how };
      try {
        return await threads.use(async (thread) => {
          thread.send({ kind: 'apply', order });
          const news = await thread.next(timeoutMs);
          if (news.kind !== 'applied' && news.kind !== 'invalid') throw new Error('its thread spoke out of turn');
          return news;
        }, project);
      } catch (error) {
        throw failed(error);
      } finally {
        await local.release();
      }
    },
  };
}

function failed(error: unknown): DomainError {
  const said = error instanceof Error ? error.message : String(error);
  return new DomainError('INTERNAL', `applying a submission failed: ${said}`, {}, { cause: error });
}
