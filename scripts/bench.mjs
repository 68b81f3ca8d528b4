#!/usr/bin/env node
// npm run bench [-- --json]: sets up what is missing, then measures against the bare engine.
import { runOnNode24 } from './setup/node-program.mjs';

await runOnNode24('bench/main.ts', process.argv.slice(2));
