import type { ChildProcess } from 'node:child_process';
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest';
import { type } from './frame-codec.ts';
import { createGuestBuild, type GuestBuild, type GuestProcess, startGuest } from './guest-process.ts';
import type { TestWorker } from './test-worker.ts';

/** The guest of the test that runs. */
export interface SuiteGuest {
  readonly build: GuestBuild;
  readonly worker: TestWorker;
  readonly process: ChildProcess;
  readonly pid: number;
}

/** For the file that calls it: one build, and a fresh guest for every test. */
export function useGuest(): SuiteGuest {
  let build: GuestBuild;
  let guest: GuestProcess;
  beforeAll(async () => {
    build = await createGuestBuild();
  });
  afterAll(() => build.remove());
  beforeEach(async () => {
    guest = await startGuest(build);
    await guest.worker.frame(type.SYNCED);
  });
  afterEach(() => guest.stop());
  return {
    get build() {
      return build;
    },
    get worker() {
      return guest.worker;
    },
    get process() {
      return guest.process;
    },
    get pid() {
      return guest.pid;
    },
  };
}
