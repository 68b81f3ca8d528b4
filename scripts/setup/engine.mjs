import { accessSync, constants, existsSync } from 'node:fs';
import { installPackages } from './apt.mjs';
import { createEngineApi, defaultSocket } from './engine-api.mjs';
import { startEngine } from './engine-process.mjs';
import { SetupFailure } from './failure.mjs';
import { takeLock } from './lock.mjs';
import { findProgram } from './program.mjs';
import { step } from './progress.mjs';

/** What to type then: set-up does not start an engine that is not its own. */
export const ownEngineIsDown = 'start that engine, or: unset DOCKER_HOST';
const machineLock = '/run/assay-setup.lock';

/** The socket that is to be used: the user's own where DOCKER_HOST names one. */
export function engineSocket() {
  const host = process.env.DOCKER_HOST;
  if (!host) return defaultSocket;
  if (host.startsWith('unix://')) return host.slice('unix://'.length);
  throw new SetupFailure(
    `DOCKER_HOST is ${host}; expected a Unix socket (unix:///path), since containers run beside their worker`,
    'unset DOCKER_HOST',
  );
}

/** Finds the engine that answers, or installs and starts one. Resolves to its API. */
export async function ensureEngine(dataDir) {
  const socket = engineSocket();
  const api = createEngineApi(socket);
  if (await api.answers()) return api;
  refuseWhatIsNotOurs(socket);
  // One engine a machine, whatever data directory asks for it.
  const lock = await takeLock(machineLock, { wait: true, purpose: 'starting a Docker engine' });
  try {
    if (await api.answers()) return api;
    if (!findProgram('dockerd') || !findProgram('containerd')) {
      await installPackages(['docker.io', 'iptables'], 'No Docker engine was found');
    }
    // A package may have started the engine as a service of the system: then it is the system's.
    if (!(await api.answers())) await step('Starting a Docker engine', () => startEngine(api, dataDir));
    return api;
  } finally {
    await lock.release();
  }
}

/** The programs that give every session a disk of limited size; without root there are no such disks. */
export async function ensureDiskTools() {
  if (process.getuid?.() !== 0) return;
  const packageOf = {
    'mkfs.ext4': 'e2fsprogs',
    mount: 'mount',
    umount: 'mount',
    losetup: 'mount',
    setpriv: 'util-linux',
  };
  const absent = Object.keys(packageOf).filter((program) => !findProgram(program));
  const packages = [...new Set(absent.map((program) => packageOf[program]))];
  if (packages.length > 0) await installPackages(packages, `${absent.join(', ')} not found`);
}

function refuseWhatIsNotOurs(socket) {
  if (existsSync(socket) && !writable(socket)) {
    throw new SetupFailure(
      `the Docker engine at ${socket} is not open to this user`,
      'sudo usermod -aG docker "$USER", then log in again',
    );
  }
  if (process.env.DOCKER_HOST) {
    throw new SetupFailure(`the Docker engine at ${socket} (from DOCKER_HOST) does not answer`, ownEngineIsDown);
  }
  if (process.getuid?.() === 0) return;
  if (findProgram('dockerd')) throw new SetupFailure('a Docker engine is installed but does not run', 'sudo dockerd &');
  throw new SetupFailure(
    'no Docker engine was found',
    `sudo sh -c 'apt-get update && apt-get install --yes --no-install-recommends docker.io iptables' && sudo usermod -aG docker "$USER"`,
  );
}

function writable(path) {
  try {
    accessSync(path, constants.R_OK | constants.W_OK);
    return true;
  } catch {
    return false;
  }
}
