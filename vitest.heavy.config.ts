import { defineConfig } from 'vitest/config';
import { everyRun, everyTest } from './vitest.config.ts';

/** Everyday tests that do more here: what chance decides more often, and all rows of a table. */
const repeated = ['test/e2e/{crash,follow,shells,warm-pool,weak-levels,worker-keep}.test.ts'];

/** What is too slow or too heavy for every day: `npm run test:heavy`. */
export default defineConfig({
  test: {
    ...{ ...everyTest, ...everyRun, maxWorkers: 1, testTimeout: 900_000 },
    provide: { heavy: true },
    include: ['test/heavy/**/*.test.ts', ...repeated],
  },
});
