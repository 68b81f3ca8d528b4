#!/usr/bin/env node
// npm run validate:examples [-- --repeat 5]: puts every sample of the example dataset to the test and prints a table.
import { runOnServiceNode } from './setup/node-program.mjs';

await runOnServiceNode('cli/validate-examples.ts', process.argv.slice(2));
