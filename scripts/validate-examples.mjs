#!/usr/bin/env node
// npm run validate:examples [-- --repeat 5]: puts every sample of the example dataset to the test and prints a table.
import { runOnNode24 } from './setup/node-program.mjs';

await runOnNode24('cli/validate-examples.ts', process.argv.slice(2));
