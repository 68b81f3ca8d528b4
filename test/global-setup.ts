import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import Docker from 'dockerode';
import type { TestProject } from 'vitest/node';
import { setup as setUp } from '../scripts/setup/index.mjs';
import { createManifests } from '../services/sandbox-worker/submission/manifests.ts';
import { own, sweepDeadRuns } from './dead-runs.ts';
import { leftovers } from './leftovers.ts';
import { runDirectory } from './run.ts';
import { sharedManifests } from './shared-manifests.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** The program that a test's own broker runs. */
    natsServer: string;
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
  await keepManifestsOfImages(found.dataDir, found.dockerSocket);
  project.provide('natsServer', found.natsServer ?? 'nats-server');
  project.provide('setup', { ...found, natsServer: found.natsServer ?? '' });
  return async () => {
    const left = await leftovers(found.dockerSocket);
    try {
      rmSync(runDirectory(), { recursive: true, force: true });
    } catch (error) {
      left.push(String(error));
    }
    if (left.length === 0) return;
    // What is thrown here is printed, and leaves the exit code as it is.
    process.exitCode = 1;
    throw new Error(`the tests left behind:\n  ${left.join('\n  ')}`);
  };
}

/** Forgets the shared manifests of images that are gone. */
async function keepManifestsOfImages(dataDir: string, socketPath: string): Promise<void> {
  const images = await new Docker({ socketPath, host: undefined }).listImages({ all: true });
  const manifests = createManifests({ directory: sharedManifests(dataDir), socketPath });
  manifests.keepOnly(new Set(images.map(({ Id }) => Id)));
}
