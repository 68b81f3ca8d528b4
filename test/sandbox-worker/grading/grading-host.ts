import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { inject } from 'vitest';
import type { Engine } from '../../../services/sandbox-worker/docker/engine.ts';
import { createGrader, type WorkerGrader } from '../../../services/sandbox-worker/grading/create-grader.ts';
import type { Graded, GradingOrder } from '../../../services/sandbox-worker/grading/grader.ts';
import {
  createGradingContainers,
  type GradingContainers,
} from '../../../services/sandbox-worker/grading/grading-container.ts';
import { createGradingPool, type GradingPool } from '../../../services/sandbox-worker/grading/grading-pool.ts';
import { createGradingSlots } from '../../../services/sandbox-worker/grading/grading-slot.ts';
import { createReportReader } from '../../../services/sandbox-worker/report/report-reader.ts';
import { rulesOf } from '../../../services/sandbox-worker/submission/rules.ts';
import { createSubmissionThreads } from '../../../services/sandbox-worker/submission/submission-threads.ts';
import { readSample, type SampleFolder } from '../../../services/shared/sample/read-sample.ts';
import { needsWhole } from '../../../services/shared/sample/run-plan.ts';
import { type Leftovers, log, mebibyte } from '../docker/scratch-host.ts';
import { createSealingHost, type SealingHost, sealed } from '../submission/sealing-host.ts';

const libraryPath = new URL('../../../runner/lib', import.meta.url).pathname;

export interface GradingHost extends SealingHost {
  readonly engine: Engine;
  readonly grader: WorkerGrader;
  readonly containers: GradingPool;
  /** Those of a worker with the same containers that knows nothing of this one. */
  another(): { containers: GradingContainers };
  /** A sample of the base image, with these hidden tests. */
  sample(verification: Readonly<Record<string, unknown>>, tests: Readonly<Record<string, string>>): Promise<Small>;
  /** Does something to the workspace as the agent, seals it and grades it. */
  grade(small: Small, change: string, options?: Partial<GradingOrder>): Promise<Graded>;
  /** Ends all and tells what is left. */
  close(): Promise<Leftovers>;
  submission(small: Small, change: string): Promise<GradingOrder['submission']>;
  order(small: Small, submission: GradingOrder['submission'], options?: Partial<GradingOrder>): GradingOrder;
}

export interface Small {
  readonly folder: SampleFolder;
  readonly image: string;
}

export async function createGradingHost(poolSize = 0): Promise<GradingHost> {
  const sealing = await createSealingHost();
  const { host, manifests, store } = sealing;
  const { guestPath, isolatedPath, baseImage, dataDir } = inject('setup');
  const engine = await host.engine({
    idmountPath: join(dirname(guestPath), 'idmount'),
    // Kept from run to run: making them takes seconds.
    layerCopies: { directory: join(dataDir, 'layers'), floorBytes: 0 },
  });
  // Where it was never made it takes seconds, which would be the first test's.
  await manifests.of((await engine.image(baseImage)).id);
  const slots = createGradingSlots({ dataDirectory: host.directory, guestPath, isolatedPath, libraryPath });
  const { installation } = host;
  const made = createGradingContainers({ engine, slots, installation, log });
  const containers = createGradingPool({ containers: made, size: poolSize, log });
  const grader = createGrader({
    engine,
    containers,
    manifests,
    threads: createSubmissionThreads(),
    reader: createReportReader(),
    defaultLimits: { cpus: 1, memoryBytes: 256 * mebibyte, diskBytes: 128 * mebibyte, pids: 64 },
    outputBytes: 65_536,
    log,
  });
  let count = 0;
  const whole: GradingHost = {
    ...sealing,
    engine,
    grader,
    containers,
    another: () => ({ containers: createGradingContainers({ engine, slots, installation, log }) }),
    async sample(verification, tests) {
      const folder = mkdtempSync(join(host.directory, 'sample-'));
      const files = { 'sample.yaml': JSON.stringify(description(verification)), 'code/empty': '' };
      for (const [name, content] of Object.entries({ ...files, ...prefixed(tests) })) {
        mkdirSync(dirname(join(folder, name)), { recursive: true });
        writeFileSync(join(folder, name), content);
      }
      return { folder: await readSample(folder), image: (await engine.image(baseImage)).id };
    },
    async close() {
      await grader.settled();
      await containers.close();
      return host.close();
    },
    async submission({ folder, image }, script) {
      const session = await sealing.session(script, (await engine.image(image)).id);
      try {
        const { environment, verification } = folder.sample;
        const rules = rulesOf(environment.workdir, verification);
        const options = { whole: needsWhole(verification) };
        const { digest, whole } = sealed(await sealing.seal(session, { ...rules, forbid: [] }, options));
        const stored = async (of: string) => ({ digest: of, path: (await store.fetch(of))?.file ?? '' });
        return { ...(await stored(digest)), ...(whole !== undefined && { whole: await stored(whole) }) };
      } finally {
        await engine.remove(session.id);
      }
    },
    order({ folder, image }, submission, options = {}) {
      count += 1;
      const { signal } = new AbortController();
      return { verificationId: `ver-${count}`, sample: folder, image, submission, signal, phase() {}, ...options };
    },
    async grade(small, script, options) {
      return grader.grade(whole.order(small, await whole.submission(small, script), options));
    },
  };
  return whole;
}

function prefixed(tests: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(tests).map(([name, content]) => [`tests/${name}`, content]));
}

function description(verification: Readonly<Record<string, unknown>>) {
  return {
    ...{ format: 'assay/1', dataset: 'small', id: 'small', version: '1.0.0', language: 'shell', title: 'Small' },
    provenance: { origin: 'made by a test', license: 'MIT' },
    instruction: 'Do it.',
    codebase: [{ from: 'files', path: 'code' }],
    verification: { tests: 'tests', timeout: 60, ...verification },
  };
}
