#!/usr/bin/env node
// node scripts/setup.mjs [last part]: sets up what Assay needs without starting it, and prints where everything is.
import { reportAndExit } from './setup/failure.mjs';
import { setup } from './setup/index.mjs';

setup({ only: process.argv[2] }).then(
  (found) => process.stdout.write(`${JSON.stringify(found, null, 2)}\n`),
  reportAndExit,
);
