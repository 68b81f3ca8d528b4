import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { DomainError } from '../../shared/domain-error.ts';
import type { ContainerLimits, Engine } from '../docker/engine.ts';
import type { WorkerGradings } from '../grading/worker-gradings.ts';
import type { SampleImages } from '../sample/sample-images.ts';
import type { Manifests } from '../submission/manifests.ts';
import { createSealer } from '../submission/seal.ts';
import { createLocalSubmissionStore } from '../submission/submission-store.ts';
import type { SubmissionThreads } from '../submission/submission-threads.ts';
import { createValidator, type Validator } from './validator.ts';

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
export function createWorkerValidation(deps: WorkerValidationDeps): Validator {
  const { engine, images, manifests, threads, gradings, defaultLimits } = deps;
  if (gradings === undefined) {
    return async () => {
      throw new DomainError('NO_WORKER', 'this worker cannot grade: it lacks ASSAY_ISOLATED_PATH');
    };
  }
  const directory = join(deps.dataDirectory, 'validations');
  // Of a life that ended in the middle of a validation.
  rmSync(directory, { recursive: true, force: true });
  const store = createLocalSubmissionStore(join(directory, 'submissions'));
  const stagingDirectory = join(directory, 'staging');
  const sealer = createSealer({ engine, manifests, threads, stagingDirectory });
  const { grader, containers } = gradings;
  return createValidator({ engine, images, containers, sealer, store, grader, defaultLimits });
}
