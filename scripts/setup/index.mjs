import { join } from 'node:path';
import { ensureBaseImage } from './base-image.mjs';
import { ensureBroker } from './broker.mjs';
import { cPrograms, ensureCProgram } from './c-program.mjs';
import { ensureDiskTools, ensureEngine } from './engine.mjs';
import { SetupFailure } from './failure.mjs';
import { takeLock } from './lock.mjs';
import { ensurePackages } from './packages.mjs';
import { dataDirectory, makePrivateDirectory } from './paths.mjs';

/** The parts of set-up, in order. Each needs those before it but for `broker`. */
export const parts = ['packages', 'engine', 'broker', 'base-image', 'guest'];

/**
 * Finds or makes all that Assay needs on this machine and tells where it is. Safe to call at any time and from several
 * processes at once. `only` names the last part that is wanted.
 */
export async function setup({ only = 'guest' } = {}) {
  if (process.platform !== 'linux') throw new SetupFailure(`Assay runs on Linux, this is ${process.platform}`);
  if (!parts.includes(only)) throw new SetupFailure(`"${only}" is no part of set-up; expected ${parts.join(', ')}`);
  const wants = (part) => parts.indexOf(part) <= parts.indexOf(only);
  const dataDir = makePrivateDirectory(dataDirectory());
  const found = { dataDir, nodePath: undefined, dockerSocket: undefined };
  const lock = await takeLock(join(dataDir, 'setup.lock'), { wait: true, purpose: 'set-up' });
  try {
    if (wants('packages')) found.nodePath = await ensurePackages();
    if (!wants('engine')) return found;
    const api = await ensureEngine(dataDir);
    found.dockerSocket = api.socketPath;
    await ensureDiskTools();
    if (wants('broker')) found.natsServer = await ensureBroker();
    if (wants('base-image')) found.baseImage = await ensureBaseImage(api, dataDir);
    if (wants('guest')) {
      found.guestPath = await ensureCProgram(api, dataDir, found.baseImage, cPrograms.guest);
      found.isolatedPath = await ensureCProgram(api, dataDir, found.baseImage, cPrograms.isolated);
    }
    return found;
  } finally {
    await lock.release();
  }
}
