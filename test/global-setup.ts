import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import type { TestProject } from 'vitest/node';
import { setup as setUp } from '../scripts/setup/index.mjs';
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

/** Sets up what the tests need and, when all have run, fails the run if anything is left behind. */
export default async function globalSetup(project: TestProject): Promise<() => Promise<void>> {
  process.env.ASSAY_TEST_RUN = `t${randomBytes(5).toString('hex')}`;
  const found = await setUp();
  project.provide('setup', { ...found, natsServer: found.natsServer ?? '' });
  return async () => {
    const left = await leftovers(found.dockerSocket);
    rmSync(runDirectory(), { recursive: true, force: true });
    if (left.length > 0) throw new Error(`the tests left behind:\n  ${left.join('\n  ')}`);
  };
}
