import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import Docker from 'dockerode';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { own, sweepDeadRuns } from './dead-runs.ts';
import { ownerFile, runDirectory } from './run.ts';

const { dockerSocket, baseImage, nodePath } = inject('setup');
const docker = new Docker({ socketPath: dockerSocket, host: undefined });
const children: ChildProcess[] = [];
let parent: string;

beforeAll(() => {
  parent = mkdtempSync(join(runDirectory(), 'runs-'));
});
afterAll(async () => {
  for (const child of children) child.kill('SIGKILL');
  rmSync(parent, { recursive: true, force: true });
});

function makeRun(): string {
  const directory = join(parent, `assay-t${randomBytes(5).toString('hex')}`);
  mkdirSync(join(directory, 'stack'), { recursive: true });
  return directory;
}

/** A process that waits, and was told of the directory or stands in it. */
async function startIn(directory: string, how: 'named' | 'standing'): Promise<ChildProcess> {
  const script = 'console.log("up"); setInterval(() => {}, 1_000_000)';
  const args = how === 'named' ? [join(directory, 'stack')] : [];
  const child = spawn(nodePath, ['-e', script, ...args], {
    cwd: how === 'standing' ? join(directory, 'stack') : '/',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  children.push(child);
  await once(child.stdout, 'data');
  return child;
}

async function createContainer(directory: string): Promise<string> {
  const label = `${basename(directory).replace('assay-', '')}-1`;
  const { id } = await docker.createContainer({ Image: baseImage, Labels: { 'dev.assay.installation': label } });
  return id;
}

const exists = (id: string): Promise<boolean> =>
  docker
    .getContainer(id)
    .inspect()
    .then(
      () => true,
      () => false,
    );

test('what a run has left that was killed is removed: processes, containers, its directory', async () => {
  const run = makeRun();
  const owner = await startIn('/', 'named');
  own(run, owner.pid);
  const left = [await startIn(run, 'named'), await startIn(run, 'standing')];
  const ended = left.map((child) => once(child, 'exit'));
  const container = await createContainer(run);
  expect(await sweepDeadRuns(parent, dockerSocket)).toEqual([]);
  owner.kill('SIGKILL');
  await once(owner, 'exit');
  expect(await sweepDeadRuns(parent, dockerSocket)).toEqual([run]);
  await Promise.all(ended);
  expect(await exists(container)).toBe(false);
  expect(existsSync(run)).toBe(false);
});

test('a process that has the number of a dead one does not keep its run, nor does one of an earlier life of the machine', async () => {
  const changes = [{ startTime: '1' }, { boot: 'another' }];
  for (const change of changes) {
    const run = makeRun();
    own(run);
    const file = join(run, ownerFile);
    writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, 'utf8')), ...change }));
    expect(await sweepDeadRuns(parent, dockerSocket)).toEqual([run]);
  }
});

test('a run that lives, or does not say whose it is, is left alone with all it has', async () => {
  const [living, unsaid] = [makeRun(), makeRun()];
  own(living);
  const child = await startIn(living, 'standing');
  const container = await createContainer(living);
  try {
    expect(await sweepDeadRuns(parent, dockerSocket)).toEqual([]);
    expect([existsSync(living), existsSync(unsaid)]).toEqual([true, true]);
    expect([child.exitCode, child.signalCode]).toEqual([null, null]);
    expect(await exists(container)).toBe(true);
  } finally {
    await docker.getContainer(container).remove({ force: true });
  }
});
