import { defineConfig } from 'vitest/config';
import everyday from './vitest.config.ts';

/** What is too slow or too heavy for every day: `npm run test:heavy`. */
export default defineConfig({
  test: { ...everyday.test, include: ['test/heavy/**/*.test.ts'], exclude: [], maxWorkers: 1, testTimeout: 900_000 },
});
