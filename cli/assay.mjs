#!/usr/bin/env node
// The `assay` command. Runs on any Node from 20 on: an older one than 24 hands over to the Node that npm installed.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { enableCompileCache } from 'node:module';
import { constants } from 'node:os';
import { fileURLToPath } from 'node:url';

const here = (path) => fileURLToPath(new URL(path, import.meta.url));

if (Number(process.versions.node.split('.')[0]) >= 24) {
  // What was compiled once need not be stripped of its types again: a third of the time of a short command.
  if (existsSync(here('../.assay'))) enableCompileCache(here('../.assay/compiled'));
  const { main } = await import('./main.ts');
  await main();
} else {
  handOver();
}

function handOver() {
  const node = here(`../node_modules/node-linux-${process.arch}/bin/node`);
  if (!existsSync(node)) {
    process.stderr.write(`assay: this needs Node 24 and found ${process.version}\n  type: npm install\n`);
    process.exit(125);
  }
  const child = spawn(node, [here('./assay.mjs'), ...process.argv.slice(2)], { stdio: 'inherit' });
  // A signal to this process alone has to reach the one that does the work; a terminal's reaches both.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
  child.on('error', (error) => {
    process.stderr.write(`assay: ${node} does not run: ${error.message}\n  type: npm install\n`);
    process.exit(125);
  });
  child.on('exit', (code, signal) => process.exit(code ?? 128 + (constants.signals[signal] ?? 0)));
}
