import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { SetupFailure } from './failure.mjs';
import { node24, repository } from './paths.mjs';
import { run } from './program.mjs';
import { step } from './progress.mjs';

/** Installs the npm packages of the lock file, unless just these are there. Resolves to the Node 24 among them. */
export async function ensurePackages() {
  const problem = packagesProblem();
  if (problem) await install();
  const left = packagesProblem();
  if (left) throw new SetupFailure(`npm packages: ${left}, after they were installed`, 'npm install --no-save');
  return node24();
}

/** What is wrong with node_modules, or undefined. npm writes its own lock file there when all packages are in place. */
export function packagesProblem() {
  const wanted = packagesOf(join(repository, 'package-lock.json'));
  const present = packagesOf(join(repository, 'node_modules', '.package-lock.json'));
  if (!wanted)
    throw new SetupFailure('package-lock.json is missing or cannot be read', 'git checkout package-lock.json');
  if (!present) return 'not installed';
  for (const [path, entry] of Object.entries(wanted)) {
    if (path === '') continue;
    const found = present[path];
    if (!found && !entry.optional) return `${path} is missing`;
    if (found && found.version !== entry.version) return `${path} is ${found.version}, not ${entry.version}`;
  }
  if (!existsSync(node24())) return `Node 24 for ${process.platform}-${process.arch} is missing`;
  return undefined;
}

async function install() {
  const npm = process.env.npm_execpath;
  const [program, first] = npm ? [process.execPath, [npm]] : ['npm', []];
  // `npm ci` refuses a lock file made where the registry lacked the packages of foreign platforms; `install --no-save`
  // takes the same versions and digests from it and leaves it as it is. No package of ours needs an install script.
  const args = [
    'install',
    '--no-save',
    '--include=dev',
    '--include=optional',
    '--ignore-scripts',
    '--no-audit',
    '--no-fund',
  ];
  await step('Installing npm packages', (detail) =>
    run(program, [...first, ...args], { cwd: repository, onLine: detail }).catch((error) => {
      throw new SetupFailure(error.message, `npm ${args.join(' ')}`);
    }),
  );
}

function packagesOf(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8')).packages;
  } catch {
    return undefined;
  }
}
