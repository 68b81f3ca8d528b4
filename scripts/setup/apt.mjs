import { SetupFailure } from './failure.mjs';
import { findProgram, run } from './program.mjs';
import { step } from './progress.mjs';

/** Installs Debian packages, or says what to type where that is not ours to do. */
export async function installPackages(packages, why) {
  const command = `apt-get update && apt-get install --yes --no-install-recommends ${packages.join(' ')}`;
  if (!findProgram('apt-get')) {
    throw new SetupFailure(`${why}, and this machine has no apt-get: install ${packages.join(', ')} by its own means`);
  }
  if (process.getuid?.() !== 0) throw new SetupFailure(why, `sudo sh -c '${command}'`);
  await step(`Installing ${packages.join(', ')}`, async (detail) => {
    const env = { DEBIAN_FRONTEND: 'noninteractive' };
    // Another apt may be at work: wait for its lock rather than fail.
    const options = ['-o', 'DPkg::Lock::Timeout=300', '-o', 'Acquire::Retries=3'];
    try {
      await run('apt-get', [...options, 'update'], { env, onLine: detail });
      await run('apt-get', [...options, 'install', '--yes', '--no-install-recommends', ...packages], {
        env,
        onLine: detail,
      });
    } catch (error) {
      throw new SetupFailure(`${why}, and installing failed: ${error.message}`, command);
    }
  });
}
