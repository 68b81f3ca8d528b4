import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { SetupFailure } from './failure.mjs';
import { findNode, leastNode } from './node-runtime.mjs';
import { repository } from './paths.mjs';
import { run } from './program.mjs';
import { step } from './progress.mjs';

/** Installs the npm packages of the lock file, unless just these are there. Resolves to the Node to run them on. */
export async function ensurePackages() {
  const problem = packagesProblem();
  if (problem) await install();
  const left = packagesProblem();
  if (left) throw new SetupFailure(`npm packages: ${left}, after they were installed`, 'npm ci');
  return findNode();
}

/** What is wrong with node_modules, or undefined. npm writes its own lock file there when all packages are in place. */
export function packagesProblem() {
  const wanted = lockedPackages();
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
  if (!findNode()) return `Node ${leastNode} or newer for ${process.platform}-${process.arch} is missing`;
  return undefined;
}

async function install() {
  const npm = process.env.npm_execpath;
  const [program, first] = npm ? [process.execPath, [npm]] : ['npm', []];
  // No package of ours needs an install script.
  const args = ['ci', '--include=dev', '--include=optional', '--ignore-scripts', '--no-audit', '--no-fund'];
  await step('Installing npm packages', (detail) =>
    run(program, [...first, ...args], { cwd: repository, onLine: detail }).catch((error) => {
      throw new SetupFailure(error.message, `npm ${args.join(' ')}`);
    }),
  );
}

/**
 * What a lock file lacks for `npm ci`: entries of packages that others depend on. npm leaves those of foreign platforms
 * out where the registry does not have them, and then refuses its own lock file. An entry must name no registry.
 */
export function lockFileProblems(packages) {
  return Object.entries(packages).flatMap(([path, entry]) => [
    ...Object.keys({ ...entry.dependencies, ...entry.optionalDependencies })
      .filter((name) => !isLocked(packages, path, name))
      .map((name) => `${name}, which ${path || 'package.json'} depends on, is missing`),
    ...(entry.resolved ? [`${path} names a registry: ${entry.resolved}`] : []),
  ]);
}

/** Node looks for a package beside the one that asks for it, and then in each directory above. */
function isLocked(packages, path, name) {
  if (packages[join(path, 'node_modules', name)]) return true;
  return path !== '' && isLocked(packages, path.slice(0, Math.max(0, path.lastIndexOf('/node_modules/'))), name);
}

export function lockedPackages() {
  return packagesOf(join(repository, 'package-lock.json'));
}

function packagesOf(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8')).packages;
  } catch {
    return undefined;
  }
}
