import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { programPath, repository } from './paths.mjs';

/** The first release that runs our TypeScript without a flag and is tested with it. */
export const leastNode = 24;

/**
 * The Node for the services, tests and commands: the one that runs this process if it is new enough, else one on PATH.
 * The build that npm installed as a package comes last, since its maker is not Node's. Undefined if there is none.
 */
export function findNode() {
  if (newEnough(process.version)) return process.execPath;
  const onPath = programPath()
    .split(delimiter)
    .map((directory) => join(directory, 'node'));
  return [...onPath, packagedNode()].find((path) => existsSync(path) && newEnough(versionOf(path)));
}

/** Where npm puts the Node of our optional dependencies. */
export function packagedNode() {
  return join(repository, 'node_modules', `node-linux-${process.arch}`, 'bin', 'node');
}

function newEnough(version) {
  return Number(/^v(\d+)\./.exec(version)?.[1]) >= leastNode;
}

function versionOf(path) {
  return spawnSync(path, ['--version'], { encoding: 'utf8', timeout: 10_000 }).stdout ?? '';
}
