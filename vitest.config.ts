import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    exclude: ['test/heavy/**'],
    globalSetup: ['test/global-setup.ts'],
    // Two cores, one engine: more files at once only make each other slow.
    maxWorkers: 2,
    // Tests of one file that may run side by side mostly wait.
    maxConcurrency: 10,
    // Only what hangs comes to these: the machine may be ten times slower than the one a test was written on, and a test that runs
    // beside others waits for them too.
    testTimeout: 600_000,
    hookTimeout: 600_000,
    // Without it a poll would wait a second, for which a machine may hold any process up.
    expect: { poll: { timeout: 120_000 } },
    teardownTimeout: 60_000,
  },
});
