#!/usr/bin/env node
// npm test [-- vitest arguments]: sets up what is missing, then runs the tests on the Node of the services.
import { installPackages } from './setup/apt.mjs';
import { reportAndExit } from './setup/failure.mjs';
import { runOnServiceNode } from './setup/node-program.mjs';
import { findProgram } from './setup/program.mjs';

/** What only the tests need: the guest under sanitizers, and a client that nobody here wrote. */
const programs = { gcc: ['gcc', 'libc6-dev'], make: ['make'], curl: ['curl', 'ca-certificates'], ps: ['procps'] };
const missing = Object.keys(programs).filter((name) => !findProgram(name));
if (missing.length > 0) {
  const packages = missing.flatMap((name) => programs[name]);
  await installPackages(packages, `the tests need ${missing.join(', ')}`).catch(reportAndExit);
}
await runOnServiceNode('node_modules/vitest/vitest.mjs', ['run', ...process.argv.slice(2)]);
