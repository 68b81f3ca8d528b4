import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    exclude: ['test/heavy/**'],
    globalSetup: ['test/global-setup.ts'],
    // Two cores, one engine: more files at once only make each other slow.
    maxWorkers: 2,
    testTimeout: 60_000,
    hookTimeout: 120_000,
    // A machine may hold any process up for a second, which is all that a poll would wait otherwise.
    expect: { poll: { timeout: 30_000 } },
    teardownTimeout: 60_000,
  },
});
