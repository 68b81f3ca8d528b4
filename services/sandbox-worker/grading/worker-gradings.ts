import { resolve } from 'node:path';
import type { Logger } from '../../shared/log.ts';
import type { WorkerConfig } from '../config.ts';
import type { ContainerLimits, Engine } from '../docker/engine.ts';
import { createReportReader } from '../report/report-reader.ts';
import type { Manifests } from '../submission/manifests.ts';
import type { SubmissionThreads } from '../submission/submission-threads.ts';
import { createGrader } from './create-grader.ts';
import type { Grader } from './grader.ts';
import { createGradingContainers, type GradingContainers } from './grading-container.ts';
import { createGradingPool } from './grading-pool.ts';
import { createGradingSlots } from './grading-slot.ts';

const sweepMs = 60_000;
const libraryPath = new URL('../../../runner/lib', import.meta.url).pathname;

/** What the worker has for gradings. */
export interface WorkerGradings {
  readonly grader: Grader;
  /** Of the kind that gradings have, each made when it is asked for. */
  readonly containers: Pick<GradingContainers, 'create'>;
  /** Removes the containers of gradings that are none of this process's. */
  sweep(): Promise<void>;
  /** To be called when nothing is graded any more. */
  close(): Promise<void>;
}

export interface WorkerGradingDeps {
  readonly config: WorkerConfig;
  readonly dataDirectory: string;
  readonly engine: Engine;
  readonly manifests: Manifests;
  readonly threads: SubmissionThreads;
  readonly defaultLimits: ContainerLimits;
  readonly log: Logger;
}

/** undefined where this worker has no program for the tests to reach a submission with. */
export function createWorkerGradings(deps: WorkerGradingDeps): WorkerGradings | undefined {
  const { config, engine, log } = deps;
  if (config.ASSAY_ISOLATED_PATH === undefined) return undefined;
  const slots = createGradingSlots({
    dataDirectory: deps.dataDirectory,
    guestPath: resolve(config.ASSAY_GUEST_PATH),
    isolatedPath: resolve(config.ASSAY_ISOLATED_PATH),
    libraryPath,
  });
  const made = createGradingContainers({ engine, slots, installation: config.ASSAY_INSTALLATION, log });
  const containers = createGradingPool({ containers: made, size: config.ASSAY_GRADING_POOL, log });
  // One for each grading, those of validations included.
  const reader = createReportReader({ threads: config.ASSAY_VERIFICATION_SLOTS + config.ASSAY_VALIDATION_SLOTS });
  const grader = createGrader({ ...deps, containers, reader, outputBytes: config.ASSAY_GRADING_OUTPUT_BYTES });
  // Beside the one at the start: a removal can fail, too.
  const sweeping = setInterval(() => {
    containers.sweep().catch((error) => log.warn({ err: error }, 'a sweep of grading containers did not finish'));
    engine.sweepCopies().catch((error) => log.warn({ err: error }, 'a sweep of copied layers did not finish'));
  }, sweepMs).unref();
  const close = async (): Promise<void> => {
    clearInterval(sweeping);
    await grader.settled();
    await containers.close();
    await reader.close();
  };
  return { grader, containers: made, sweep: containers.sweep, close };
}
