import { spawn } from 'node:child_process';
import { delimiter, dirname, join } from 'node:path';
import { reportAndExit } from './failure.mjs';
import { setup } from './index.mjs';
import { programPath, repository } from './paths.mjs';

/** Sets up, then runs a program of this repository on the Node of the services with our terminal, and ends as it ends. */
export async function runOnServiceNode(program, args) {
  const { nodePath, dataDir } = await setup().catch(reportAndExit);
  const child = spawn(nodePath, [join(repository, program), ...args], {
    cwd: repository,
    // `node` in a test or a package's script is this Node as well.
    env: {
      NODE_COMPILE_CACHE: join(dataDir, 'compiled'),
      ...process.env,
      PATH: [dirname(nodePath), programPath()].join(delimiter),
    },
    stdio: 'inherit',
  });
  // The terminal's signals reach the child by itself; a signal sent to us alone has to be passed on.
  process.on('SIGINT', () => {});
  process.on('SIGTERM', () => child.kill('SIGTERM'));
  child.on('error', reportAndExit);
  child.on('exit', (code, signal) => process.exit(code ?? (signal === 'SIGINT' ? 130 : 1)));
}
