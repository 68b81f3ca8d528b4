#!/usr/bin/env node
// npm run check: everything that reads the code without running it.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { baselinePath, checkBreaking, writeBaseline } from './proto-baseline.mjs';
import { reportAndExit, SetupFailure } from './setup/failure.mjs';
import { setup } from './setup/index.mjs';
import { lockedPackages, lockFileProblems } from './setup/packages.mjs';
import { programPath, repository } from './setup/paths.mjs';
import { run } from './setup/program.mjs';
import { step } from './setup/progress.mjs';

const found = await setup({ only: 'packages' }).catch(reportAndExit);
const binaries = join(repository, 'node_modules', '.bin');
const env = { NO_COLOR: '1', PATH: [dirname(found.nodePath), binaries, programPath()].join(delimiter) };
const tool = (name, ...args) => run(join(binaries, name), args, { cwd: repository, env, keep: 1000 });

const buf = (...args) => tool('buf', ...args);

const checks = [
  ['package-lock.json is whole', checkLockFile],
  ['buf lint', () => buf('lint')],
  ['buf breaking', () => checkBreaking(buf)],
  ['npm run generate gives just what gen/ and proto/baseline.binpb hold', checkGenerated],
  ['biome', () => tool('biome', 'ci', '--colors=off', '.')],
  ['tsc', () => tool('tsc', '--noEmit')],
];

async function checkLockFile() {
  const problems = lockFileProblems(lockedPackages());
  // npm drops the packages of other platforms from a lock file when the registry has none of that version.
  if (problems.length > 0) throw new SetupFailure(`npm ci refuses package-lock.json:\n  ${problems.join('\n  ')}`);
}

async function checkGenerated() {
  const parent = join(found.dataDir, 'tmp');
  mkdirSync(parent, { recursive: true, mode: 0o700 });
  const fresh = mkdtempSync(join(parent, 'gen-'));
  try {
    await buf('generate', '--output', fresh);
    await writeBaseline(buf, join(fresh, 'baseline.binpb'));
    const same = (committed, made) => run('diff', ['--recursive', '--unified', committed, join(fresh, made)]);
    await Promise.all([same(join(repository, 'gen'), 'gen'), same(baselinePath, 'baseline.binpb')]).catch((error) => {
      throw new SetupFailure(error.message, 'npm run generate');
    });
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
}

let failed = false;
for (const [name, check] of checks) {
  await step(name, check).catch((error) => {
    failed = true;
    process.stderr.write(`${error.message}\n`);
  });
}
process.exitCode = failed ? 1 : 0;
