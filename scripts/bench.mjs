#!/usr/bin/env node
// npm run bench [-- --json]: sets up what is missing, then measures against the bare engine.
import { runOnServiceNode } from './setup/node-program.mjs';

await runOnServiceNode('bench/main.ts', process.argv.slice(2));
