#!/usr/bin/env node
// npm start: sets up what is missing, serves, shows a demo session, and serves on until Ctrl-C.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { reportAndExit } from './setup/failure.mjs';
import { setup } from './setup/index.mjs';
import { repository } from './setup/paths.mjs';
import { lowerOomScore } from './setup/process-table.mjs';
import { registryHosts } from './setup/registries.mjs';
import { serviceOomScore } from './stack/child.mjs';
import { inheritedEnvironment } from './stack/environment.mjs';
import { npmParents, onNpmEnd } from './stack/npm-parent.mjs';
import { startStack } from './stack.mjs';

// npm passes a signal on that the terminal has already sent: two so close together are one.
const sameSignalMs = 1000;

const say = (text = '') => process.stdout.write(`${text}\n`);

async function main() {
  const interruption = onInterrupt();
  const found = await setup();
  const [registries] = await Promise.all([egressDefault(found.dataDir), warnOfUnknownSettings(found)]);
  interruption.settingUp = false;
  // The services end with this process, and this process with its npm.
  for (const { pid } of [process, ...npmParents()]) lowerOomScore(pid, serviceOomScore);
  const stack = await startStack({
    setup: found,
    listen: process.env.ASSAY_LISTEN || '127.0.0.1:7070',
    onStop: 'close',
    logs: process.env.ASSAY_LOG_LEVEL === 'debug' ? 'terminal' : 'files',
    signal: interruption.signal,
    onNotice: say,
    env: { worker: { ASSAY_EGRESS_ALLOW: registries } },
  });
  interruption.force = () => stack.stop({ force: true });
  try {
    if (!interruption.signal.aborted) {
      welcome(stack);
      await demo(found, stack, interruption.signal);
    }
    if (!interruption.signal.aborted) {
      say(`\nServing ${stack.endpoint}. Ctrl-C closes every session and stops.`);
      // The children keep this process alive until then.
      await once(interruption.signal, 'abort');
    }
    say('\nStopping: sessions, worker, broker …');
  } finally {
    await stack.stop();
  }
  say('Stopped. A Docker engine that set-up started runs on: npm run stop');
}

/** What sessions with the network egress reach without asking: the registries of this machine, unless somebody said. */
async function egressDefault(dataDir) {
  return process.env.ASSAY_EGRESS_ALLOW ?? (await registryHosts(dataDir)).join(',');
}

/** The services write this to their logs, which nobody at this terminal reads. */
async function warnOfUnknownSettings({ nodePath }) {
  const program = join(repository, 'services', 'unknown-settings.ts');
  const { stdout } = await promisify(execFile)(nodePath, ['--disable-warning=ExperimentalWarning', program]);
  process.stderr.write(stdout);
}

/** The first interruption aborts the signal; a second one ends what still runs at once. */
function onInterrupt() {
  const controller = new AbortController();
  const state = { signal: controller.signal, settingUp: true, force: undefined };
  let first = 0;
  const listener = () => {
    if (state.settingUp) process.exit(130);
    if (!first) {
      first = Date.now();
      controller.abort();
    } else if (Date.now() - first > sameSignalMs) {
      say('Forced: what still runs is killed; the next start cleans up.');
      if (state.force) state.force().catch(reportAndExit);
      else process.exit(130);
    }
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, listener);
  onNpmEnd(listener);
  return state;
}

function welcome({ endpoint, key, dataDir }) {
  say(`
  Assay serves      ${endpoint}
  development key   ${key}
  data and logs     ${dataDir}

  Try, in another terminal and this directory:
    export ASSAY_ENDPOINT=${endpoint} ASSAY_API_KEY=${key}
    npx assay run examples/hello-fix
    npx assay run -- python3 -c 'print(6 * 7)'
    npx assay sessions ls
`);
}

/** A demo that fails is told, and does not end the service. */
async function demo({ nodePath }, { endpoint, key }, signal) {
  const child = spawn(nodePath, [join(repository, 'cli', 'demo.ts')], {
    env: { ...inheritedEnvironment(), ASSAY_ENDPOINT: endpoint, ASSAY_API_KEY: key },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  const end = () => child.kill('SIGTERM');
  signal.addEventListener('abort', end, { once: true });
  const [status] = await once(child, 'exit').catch((error) => [error.message]);
  signal.removeEventListener('abort', end);
  if (status !== 0 && !signal.aborted) say(`The demo session ended with ${status}.`);
}

main().then(() => process.exit(0), reportAndExit);
