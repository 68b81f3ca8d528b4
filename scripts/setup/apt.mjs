import { setTimeout as sleep } from 'node:timers/promises';
import { SetupFailure } from './failure.mjs';
import { takeLock } from './lock.mjs';
import { findProgram, run } from './program.mjs';
import { step } from './progress.mjs';

/** Not that of the engine, under which packages are installed too. */
const machineLock = '/run/assay-apt.lock';
/** A fresh machine may be at its daily apt. */
const longestWaitMs = 300_000;
/** apt waits for dpkg's lock where it is told to, but never for that of its lists. */
const locked = /Could not get lock|Unable to lock|Unable to acquire/;

/** Installs Debian packages, or says what to type where that is not ours to do. */
export async function installPackages(packages, why, options = {}) {
  const { patienceMs = longestWaitMs, pauseMs = 2_000, lockFile = machineLock } = options;
  const command = `apt-get update && apt-get install --yes --no-install-recommends ${packages.join(' ')}`;
  if (!findProgram('apt-get')) {
    throw new SetupFailure(`${why}, and this machine has no apt-get: install ${packages.join(', ')} by its own means`);
  }
  if (process.getuid?.() !== 0) throw new SetupFailure(why, `sudo sh -c '${command}'`);
  await step(`Installing ${packages.join(', ')}`, async (detail) => {
    detail('waiting for another set-up to install its own');
    const lock = await takeLock(lockFile, { wait: true, purpose: `installing ${packages.join(', ')}` });
    const end = performance.now() + patienceMs;
    try {
      await aptGet(['update'], { detail, end, pauseMs });
      await aptGet(['install', '--yes', '--no-install-recommends', ...packages], { detail, end, pauseMs });
    } catch (error) {
      throw new SetupFailure(`${why}, and installing failed: ${error.message}`, command);
    } finally {
      await lock.release();
    }
  });
}

/** Another apt may be at work: wait for its locks rather than fail. */
async function aptGet(args, { detail, end, pauseMs }) {
  const options = ['-o', 'DPkg::Lock::Timeout=300', '-o', 'Acquire::Retries=3'];
  for (;;) {
    try {
      await run('apt-get', [...options, ...args], { env: { DEBIAN_FRONTEND: 'noninteractive' }, onLine: detail });
      return;
    } catch (error) {
      if (!locked.test(error.message) || performance.now() > end) throw error;
      detail('waiting for another apt to end');
      await sleep(pauseMs);
    }
  }
}
