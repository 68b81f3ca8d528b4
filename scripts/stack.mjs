import { rmSync, statfsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { SetupFailure } from './setup/failure.mjs';
import { setup as setUp } from './setup/index.mjs';
import { lockHolder, takeLock } from './setup/lock.mjs';
import { makePrivateDirectory, repository } from './setup/paths.mjs';
import { configureBroker, foreignBroker } from './stack/broker-config.mjs';
import { watchBroker } from './stack/broker-watch.mjs';
import { createChild } from './stack/child.mjs';
import { inheritedEnvironment, serviceEnvironments } from './stack/environment.mjs';
import { holderOf, isHeldBy } from './stack/listener.mjs';
import { createLogFile } from './stack/log-file.mjs';
import { accepts, freePort, isFree } from './stack/port.mjs';
import { keptSecret, randomName } from './stack/secrets.mjs';

const usuallyReadyMs = 60_000;
const smallestFreeBytes = 16 << 20;
/** A child that ended so often right after its start will not get better. */
const hopelessEnds = 5;
/** A small young generation: the buffers of a stream die in it instead of growing the heap, and it is no slower. */
const nodeFlags = ['--disable-warning=ExperimentalWarning', '--max-semi-space-size=4'];
/** In the order of their start; they are stopped in the opposite order. */
const graceMs = { nats: 10_000, worker: 60_000, sessions: 20_000 };

/**
 * Starts a broker, a worker and the sessions service on one data directory, each a supervised process of its own, and
 * resolves once the public port is healthy. Any number of stacks may run side by side on different data directories.
 */
export async function startStack(options = {}) {
  const setup = options.setup ?? (await setUp());
  const dataDir = makePrivateDirectory(options.dataDir ?? setup.dataDir);
  releaseDiskReserve(dataDir);
  const lock = await lockDirectory(dataDir);
  let stack;
  try {
    stack = await assemble({ ...options, setup, dataDir, lock });
    await stack.begin(options.signal);
    return stack.handle;
  } catch (error) {
    await stack?.handle.stop();
    await lock.release();
    throw error;
  }
}

/** A start on a full disk needs the little that the worker keeps for it. */
function releaseDiskReserve(dataDir) {
  const { bavail, bsize } = statfsSync(dataDir);
  if (bavail * bsize < smallestFreeBytes) rmSync(join(dataDir, 'worker', 'reserve'), { force: true });
}

async function lockDirectory(dataDir) {
  const file = join(dataDir, 'stack.lock');
  const lock = await takeLock(file, { wait: false, purpose: 'serving' });
  if (lock) return lock;
  const pid = lockHolder(file)?.pid ?? 'unknown';
  throw new SetupFailure(
    `Assay already serves from ${dataDir} (process ${pid})`,
    `kill ${pid}, or for a second one: ASSAY_DATA_DIR=/other/directory ASSAY_LISTEN=127.0.0.1:7071 npm start`,
  );
}

async function assemble(options) {
  const { setup, dataDir, lock, listen = '127.0.0.1:0', onStop = 'close', logs, natsUrl, env = {} } = options;
  const { readyWithinMs = usuallyReadyMs } = options;
  const address = await publicAddress(listen);
  const files = { key: join(dataDir, 'key'), workerToken: join(dataDir, 'worker-token') };
  const key = keptSecret(files.key, () => `assay_${randomName(12)}_${randomName(40)}`);
  keptSecret(files.workerToken, () => randomName(48));
  const installation = keptSecret(join(dataDir, 'installation'), () => randomName(12));
  const logDirectory = makePrivateDirectory(join(dataDir, 'logs'));
  const terminal = logs === 'terminal';
  const children = {};
  const add = (name, program, args, environment) => {
    const log = createLogFile(join(logDirectory, `${name}.log`));
    children[name] = createChild({ name, program, args, env: { ...environment, ...env[name] }, log, terminal });
  };

  const broker = await chooseBroker({ setup, dataDir, natsUrl: natsUrl ?? process.env.NATS_URL });
  if (broker.config) add('nats', setup.natsServer, ['-c', broker.config], inheritedEnvironment());
  const settings = serviceEnvironments({
    ...{ dataDir, broker, setup, onStop, installation, files },
    listen: `${address.host}:${address.port}`,
  });
  for (const [name, directory] of [
    ['worker', 'sandbox-worker'],
    ['sessions', 'sessions'],
  ]) {
    const main = join(repository, 'services', directory, 'main.ts');
    add(name, setup.nodePath, [...nodeFlags, main], settings[name]);
  }
  const stopWatching = children.nats
    ? watchBroker({ child: children.nats, broker, graceMs: graceMs.nats, onNotice: options.onNotice })
    : () => {};
  const handle = createHandle({
    ...{ children, address, lock, dataDir, broker, key, files, installation, readyWithinMs, stopWatching },
  });
  return { handle, begin: (signal) => begin(children, broker, handle, readyWithinMs, signal) };
}

async function chooseBroker({ setup, dataDir, natsUrl }) {
  if (natsUrl) return foreignBroker(dataDir, natsUrl);
  if (!setup.natsServer) throw new SetupFailure('no nats-server was found', 'unset NATS_URL, and start again');
  const port = await freePort();
  return { ...configureBroker(dataDir, port), port, natsUrl: `nats://127.0.0.1:${port}` };
}

/** Port 0 is settled here, since a service that is started again has to come back where its clients look for it. */
async function publicAddress(listen) {
  const [, host, text] = /^(.+):(\d{1,5})$/.exec(listen) ?? [];
  if (!host || Number(text) > 65_535) throw new SetupFailure(`"${listen}" is no address; expected host:port`);
  const bare = host.replace(/^\[|\]$/g, '');
  const address = { host, bare, port: Number(text) };
  if (text === '0') return { ...address, port: await freePort(bare) };
  if (!(await isFree(bare, address.port))) throw await taken(address);
  return address;
}

/** Says who has the address, and what to type instead. */
async function taken({ host, bare, port }) {
  const holder = await holderOf(bare, port);
  const instead = `ASSAY_LISTEN=127.0.0.1:${port + 1} npm start`;
  if (holder) return new SetupFailure(`${host}:${port} is held by ${holder}`, instead);
  return new SetupFailure(
    `${host}:${port} cannot be listened on: no address of this machine, or a reserved port`,
    instead,
  );
}

async function begin(children, broker, handle, readyWithinMs, signal) {
  if (children.nats) {
    children.nats.start();
    const hopeless = () => signal?.aborted || children.nats.quickEnds >= hopelessEnds;
    const up = await accepts('127.0.0.1', broker.port, readyWithinMs, hopeless);
    if (signal?.aborted) throw interrupted();
    if (!up) throw notReady([children.nats]);
  }
  children.worker.start();
  children.sessions.start();
  await handle.ready(readyWithinMs, signal);
}

function createHandle(parts) {
  const { children, address, lock, dataDir, broker, key, files, installation, readyWithinMs, stopWatching } = parts;
  const endpoint = `http://${address.host === '0.0.0.0' ? '127.0.0.1' : address.host}:${address.port}`;
  const named = (name) => {
    const child = children[name];
    if (!child) throw new Error(`there is no child "${name}"; there are ${Object.keys(children).join(', ')}`);
    return child;
  };
  let stopping;
  const stopInOrder = async () => {
    const all = Object.values(children).reverse();
    for (const child of all) await child.halt('SIGTERM', graceMs[child.name]);
    for (const child of all) child.log.close();
    await lock.release();
  };
  return {
    ...{ endpoint, key, dataDir, installation, natsUrl: broker.natsUrl, natsAuthFile: broker.authFile },
    ...{ eventsAuthFile: broker.eventsAuthFile, workerTokenFile: files.workerToken, keyFile: files.key },
    get pids() {
      return Object.fromEntries(Object.values(children).map(({ name, pid }) => [name, pid]));
    },
    restarts: (name) => named(name).restarts,
    kill: (name, signal) => named(name).kill(signal),
    halt: (name, signal) => named(name).halt(signal, graceMs[name]),
    start: (name) => named(name).start(),
    lastLines: (name, count = 20) => named(name).log.lastLines(count),
    ready: (ms = readyWithinMs, signal = undefined) => untilHealthy(endpoint, address, children, ms, signal),
    /** In order, or all at once with `force`, which also cuts short a stop that is under way. */
    async stop({ force = false } = {}) {
      stopWatching();
      if (force) await Promise.all(Object.values(children).map((child) => child.halt('SIGKILL')));
      // Once: a service that gets a second signal leaves what it has not removed yet.
      stopping ??= stopInOrder();
      await stopping;
    },
  };
}

/**
 * Until the sessions service answers that all is well. Nothing is said to whatever else may have the port: a key that is
 * sent there later would be its.
 */
async function untilHealthy(endpoint, address, named, ms, signal) {
  const end = Date.now() + ms;
  const children = Object.values(named);
  while (Date.now() < end) {
    const bound = await isHeldBy(named.sessions.pid, address.bare, address.port);
    if (bound && (await isHealthy(endpoint))) return;
    if (signal?.aborted) throw interrupted();
    const misconfigured = children.find((child) => child.misconfigured);
    if (misconfigured === named.sessions && !(await isFree(address.bare, address.port))) throw await taken(address);
    if (misconfigured) throw badSettings(misconfigured);
    const failing = children.filter((child) => child.quickEnds >= hopelessEnds);
    if (failing.length > 0) throw notReady(failing);
    await sleep(50);
  }
  throw notReady(children);
}

function isHealthy(endpoint) {
  return fetch(`${endpoint}/healthz`, { signal: AbortSignal.timeout(2000) }).then(
    async (response) => {
      await response.arrayBuffer();
      return response.status === 200;
    },
    () => false,
  );
}

/** What it said last: a line for each bad setting. */
function badSettings({ name, log }) {
  const lines = log.lastLines(100);
  const heading = lines.findLastIndex((line) => line.endsWith('bad configuration:'));
  const found = heading < 0 ? lines.slice(-5) : lines.slice(heading + 1);
  return new SetupFailure(`${name} was given what it cannot use\n${found.join('\n')}`, 'less docs/settings.md');
}

function interrupted() {
  return new SetupFailure('interrupted before it was ready');
}

function notReady(children) {
  const parts = children.map(({ name, log }) => `${name} (${log.file}):\n    ${log.lastLines(12).join('\n    ')}`);
  return new SetupFailure(`not ready; the end of the logs\n  ${parts.join('\n  ')}`, 'npm run doctor');
}
