import { defineConfig } from 'vitest/config';
import { SpreadSequencer } from './test/spread-sequencer.ts';

/** Of every run, everyday and heavy. */
export const everyRun = {
  globalSetup: ['test/global-setup.ts'],
  // Two cores, of which two files at once used little more than half: they wait for engine, broker and guests.
  maxWorkers: 3,
  teardownTimeout: 60_000,
};

/** Of every test. */
export const everyTest = {
  // Tests of one file that may run side by side mostly wait.
  maxConcurrency: 10,
  // Only what hangs comes to these: the machine may be ten times slower than the one a test was written on, and a test that runs
  // beside others waits for them too.
  testTimeout: 600_000,
  hookTimeout: 600_000,
  // Without it a poll would wait a second, for which a machine may hold any process up.
  expect: { poll: { timeout: 120_000 } },
  provide: { heavy: false },
};

/** What depends on the broker's version; it runs on the machine's nats-server and on a current one. */
const brokerTests = [
  'test/shared/store/**/*.test.ts',
  'test/sandbox-worker/registration.test.ts',
  'test/sandbox-worker/sample/sample-cache.test.ts',
  'test/sandbox-worker/verification/{jobs,shared-submissions}.test.ts',
  'test/sessions/{instances,verification-room}.test.ts',
  'test/scripts/broker-watch.test.ts',
];

/** Only a current nats-server is right as a cluster. */
const clusterTests = 'test/shared/store/cluster.test.ts';

export default defineConfig({
  test: {
    ...everyRun,
    sequence: { sequencer: SpreadSequencer },
    projects: [
      {
        test: { ...everyTest, name: 'assay', include: ['test/**/*.test.ts'], exclude: ['test/heavy/**', clusterTests] },
      },
      {
        test: {
          ...everyTest,
          name: 'current nats-server',
          include: [...brokerTests, clusterTests],
          // Without a broker.
          exclude: ['test/shared/store/fair-share.test.ts'],
          globalSetup: ['test/current-broker.ts'],
        },
      },
    ],
  },
});
