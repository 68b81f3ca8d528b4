import { DomainError } from '../../shared/domain-error.ts';
import type { ContainerLayer } from '../docker/container-layer.ts';
import type { Manifests } from './manifests.ts';
import type { ProtectionNews } from './protection-work.ts';
import type { SubmissionRules } from './rules.ts';
import type { SubmissionThreads } from './submission-threads.ts';

export interface ProtectionDeps {
  readonly manifests: Manifests;
  readonly threads: SubmissionThreads;
  /** Whose grading it is: projects take turns. */
  readonly project?: string | undefined;
  readonly timeoutMs?: number;
}

/** Whether restored and forbidden paths are as the image has them, in a container that stands still. */
export async function findTouched(
  { manifests, threads, project, timeoutMs = 60_000 }: ProtectionDeps,
  layer: ContainerLayer,
  rules: SubmissionRules,
): Promise<ProtectionNews> {
  const manifest = await manifests.of(layer.imageId);
  try {
    return await threads.use(async (thread) => {
      thread.send({ kind: 'protection', order: { layer, manifest, rules, timeoutMs } });
      const news = await thread.next(2 * timeoutMs);
      if (news.kind !== 'untouched' && news.kind !== 'touched' && news.kind !== 'invalid') {
        throw new Error('its thread spoke out of turn');
      }
      return news;
    }, project);
  } catch (error) {
    const said = error instanceof Error ? error.message : String(error);
    throw new DomainError('INTERNAL', `looking at protected paths failed: ${said}`, {}, { cause: error });
  }
}
