#!/usr/bin/env node
// The `assay` command. Starts on any Node from 20 on: one that is too old hands over to a newer one.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
// Not by name: what a Node lacks would be a SyntaxError before the first line runs.
import * as modules from 'node:module';
import { constants } from 'node:os';
import { fileURLToPath } from 'node:url';
import { findNode, leastNode } from '../scripts/setup/node-runtime.mjs';

const here = (path) => fileURLToPath(new URL(path, import.meta.url));

const node = findNode();
if (node === process.execPath) {
  // What was compiled once need not be stripped of its types again: a third of the time of a short command.
  if (existsSync(here('../.assay'))) modules.enableCompileCache(here('../.assay/compiled'));
  const { main } = await import('./main.ts');
  await main();
} else if (node) {
  handOver(node);
} else {
  process.stderr.write(`assay: this needs Node ${leastNode} or newer and found ${process.version}\n  type: npm ci\n`);
  process.exit(125);
}

function handOver(program) {
  const child = spawn(program, [here('./assay.mjs'), ...process.argv.slice(2)], { stdio: 'inherit' });
  // A signal to this process alone has to reach the one that does the work; a terminal's reaches both.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
  child.on('error', (error) => {
    process.stderr.write(`assay: ${program} does not run: ${error.message}\n  type: npm ci\n`);
    process.exit(125);
  });
  child.on('exit', (code, signal) => process.exit(code ?? 128 + (constants.signals[signal] ?? 0)));
}
