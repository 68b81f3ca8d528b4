import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import type { TestProject } from 'vitest/node';
import { setup as setUp } from '../scripts/setup/index.mjs';
import { own, sweepDeadRuns } from './dead-runs.ts';
import { leftovers } from './leftovers.ts';
import { runDirectory } from './run.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    setup: {
      dataDir: string;
      nodePath: string;
      dockerSocket: string;
      natsServer: string;
      baseImage: string;
      guestPath: string;
      isolatedPath: string;
    };
  }
}

/** Sets up what the tests need, removes what runs that were killed have left, and, when all have run, fails the run if anything is left behind. */
export default async function globalSetup(project: TestProject): Promise<() => Promise<void>> {
  process.env.ASSAY_TEST_RUN = `t${randomBytes(5).toString('hex')}`;
  own(runDirectory());
  const found = await setUp();
  const swept = await sweepDeadRuns(tmpdir(), found.dockerSocket);
  if (swept.length > 0) console.log(`removed what runs that were killed have left: ${swept.join(', ')}`);
  project.provide('setup', { ...found, natsServer: found.natsServer ?? '' });
  return async () => {
    const left = await leftovers(found.dockerSocket);
    rmSync(runDirectory(), { recursive: true, force: true });
    if (left.length > 0) throw new Error(`the tests left behind:\n  ${left.join('\n  ')}`);
  };
}
