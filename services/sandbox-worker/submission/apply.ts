import { Worker } from 'node:worker_threads';
import { DomainError } from '../../shared/domain-error.ts';
import type { ApplyNews, ApplyOrder } from './apply-thread.ts';
import type { Manifests } from './manifests.ts';
import type { SubmissionRules } from './rules.ts';
import type { SubmissionStore } from './submission-store.ts';

export type Applied = ApplyNews;

export interface Applier {
  /**
   * Applies a stored submission to a container of the image that is created and not started, through its overlay upper
   * directory: the `fill` of a ContainerSpec. A container for which the answer is `invalid`, or that failed, is in between
   * two states and must be thrown away.
   */
  apply(digest: string, target: ApplyTarget, rules: SubmissionRules): Promise<Applied>;
}

export interface ApplyTarget {
  readonly imageId: string;
  readonly upper: string;
}

export interface ApplyDeps {
  readonly manifests: Manifests;
  readonly store: SubmissionStore;
  readonly timeoutMs?: number;
}

const heapMebibytes = 1_024;

export function createApplier({ manifests, store, timeoutMs = 120_000 }: ApplyDeps): Applier {
  return {
    async apply(digest, { imageId, upper }, rules) {
      const manifest = await manifests.of(imageId);
      const local = await store.fetch(digest);
      if (local === undefined) throw failed(new Error(`submission ${digest} is not in the store`));
      try {
        return await runThread({ file: local.file, digest, upper, imageId, manifest, rules }, timeoutMs);
      } finally {
        await local.release();
      }
    },
  };
}

async function runThread(order: ApplyOrder, timeoutMs: number): Promise<ApplyNews> {
  const thread = new Worker(new URL('./apply-thread.ts', import.meta.url), {
    workerData: order,
    resourceLimits: { maxOldGenerationSizeMb: heapMebibytes },
  });
  let timer: NodeJS.Timeout | undefined;
  try {
    return await new Promise<ApplyNews>((resolve, reject) => {
      timer = setTimeout(() => reject(failed(new Error(`it took more than ${timeoutMs} ms`))), timeoutMs);
      thread.on('message', resolve);
      thread.on('error', (error: Error) => reject(failed(error)));
      thread.on('exit', () => reject(failed(new Error('it ended early'))));
    });
  } finally {
    clearTimeout(timer);
    // Nothing may write there once the container starts.
    await thread.terminate();
  }
}

function failed(error: Error): DomainError {
  return new DomainError('INTERNAL', `applying a submission failed: ${error.message}`, {}, { cause: error });
}
