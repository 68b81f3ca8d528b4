#!/usr/bin/env node
// npm test [-- vitest arguments]: sets up what is missing, then runs the tests on Node 24.
import { runOnNode24 } from './setup/node-program.mjs';

await runOnNode24('node_modules/vitest/vitest.mjs', ['run', ...process.argv.slice(2)]);
