import { mkdirSync, rmSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { DomainError } from '../../shared/domain-error.ts';
import type { WorkerConfig } from '../config.ts';
import type { ContainerLimits, Engine } from '../docker/engine.ts';
import type { WorkerGradings } from '../grading/worker-gradings.ts';
import type { SampleImages } from '../sample/sample-images.ts';
import type { Manifests } from '../submission/manifests.ts';
import { createSealer } from '../submission/seal.ts';
import { createLocalSubmissionStore } from '../submission/submission-store.ts';
import type { SubmissionThreads } from '../submission/submission-threads.ts';
import { createValidator, type Validator, type ValidatorDeps } from './validator.ts';

export interface WorkerValidationDeps {
  readonly engine: Engine;
  readonly images: SampleImages;
  readonly manifests: Manifests;
  readonly threads: SubmissionThreads;
  readonly gradings: WorkerGradings | undefined;
  readonly defaultLimits: ContainerLimits;
  readonly dataDirectory: string;
}

/** What a validation submits stays on this worker, and is removed when it has been graded. */
export function createWorkerValidation(config: WorkerConfig, deps: WorkerValidationDeps): Validator {
  const { engine, images, manifests, threads, gradings, defaultLimits } = deps;
  if (gradings === undefined) {
    return async () => {
      throw new DomainError('NO_WORKER', 'this worker cannot grade: it lacks ASSAY_ISOLATED_PATH');
    };
  }
  const directory = join(deps.dataDirectory, 'validations');
  // Of a life that ended in the middle of a validation.
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const withStore: ValidatorDeps['withStore'] = async (work) => {
    const place = await mkdtemp(join(directory, 'submissions-'));
    try {
      return await work(createLocalSubmissionStore(place));
    } finally {
      await rm(place, { recursive: true, force: true });
    }
  };
  const stagingDirectory = join(directory, 'staging');
  const sealer = createSealer({ engine, manifests, threads, stagingDirectory });
  const { grader, containers } = gradings;
  return createValidator({
    ...{ engine, images, containers, sealer, withStore, grader, defaultLimits },
    slots: config.ASSAY_VALIDATION_SLOTS,
    sharePercent: config.ASSAY_PROJECT_SHARE,
    perProject: config.ASSAY_VALIDATIONS_PER_PROJECT,
    timeoutMs: config.ASSAY_VALIDATION_SECONDS * 1_000,
  });
}
