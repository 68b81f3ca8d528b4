import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Docker from 'dockerode';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import type { BuildEvent } from '../../clients/typescript/index.ts';
import { startTestStack, type TestStack } from '../e2e/stack.ts';
import { runDirectory, runId } from '../run.ts';

const shipped = new URL('../../datasets/examples/hello-fix', import.meta.url).pathname;
const slow = { timeout: 180_000 };
const docker = new Docker({ socketPath: inject('setup').dockerSocket, host: undefined });
const images = new Set<string>();
let datasets: string;
let stack: TestStack;

/** A sample whose image takes a while, and says when it has begun. */
function writeSample(id: string, seconds: number): { dataset: string; id: string } {
  const folder = join(datasets, 'examples', id);
  cpSync(shipped, folder, { recursive: true });
  writeFileSync(join(folder, 'code/RUN'), `${runId()} ${id}\n`);
  const yaml = readFileSync(join(folder, 'sample.yaml'), 'utf8').replace('id: hello-fix', `id: ${id}`);
  const setup = `environment:\n  setup: echo begun; sleep ${seconds}\n`;
  writeFileSync(join(folder, 'sample.yaml'), yaml.replace('environment:\n', setup));
  return { dataset: 'examples', id };
}

beforeAll(async () => {
  datasets = mkdtempSync(join(runDirectory(), 'datasets-'));
  mkdirSync(join(datasets, 'examples'));
  for (const id of ['worker', 'sessions', 'left']) writeSample(id, id === 'left' ? 600 : 5);
  stack = await startTestStack({ env: { sessions: { ASSAY_DATASETS: datasets } } });
});
afterAll(async () => {
  await stack.stop();
  for (const image of images) await docker.getImage(image).remove({ force: true });
  rmSync(datasets, { recursive: true, force: true });
});

/** Where the worker keeps what builds need. */
const work = (): string => join(stack.stack.dataDir, 'worker/builds/work');

/** Layers of a build that no image with a name is made of. */
const unnamed = (mark: string) =>
  docker.listImages({ filters: { label: [`dev.assay.build=${mark}`], dangling: ['true'] } });

/** Follows a build to its end, and calls back once its command runs. */
async function build(id: string, begun: () => void): Promise<BuildEvent[]> {
  const events: BuildEvent[] = [];
  for await (const event of stack.client.samples.build({ dataset: 'examples', id })) {
    events.push(event);
    if (event.type === 'progress' && event.line === 'begun') begun();
    if (event.type === 'built') images.add(event.image);
  }
  return events;
}

describe('an image that is being built', () => {
  test('is built anew when its worker is killed, and the session that waits for it becomes READY', slow, async () => {
    const making = stack.client.sessions.create({ sample: { dataset: 'examples', id: 'worker' } });
    const begun = Promise.withResolvers<void>();
    const watching = build('worker', begun.resolve);
    await begun.promise;
    const [mark = ''] = readdirSync(work());
    expect(await unnamed(mark)).not.toEqual([]);
    expect(stack.stack.kill('worker')).toBe(true);
    await using session = await making;
    expect(session.info).toMatchObject({ state: 'READY', message: '' });
    expect((await session.run('python3 ranges.py sum 1 3')).stdout.toString()).toBe('3\n');
    expect((await watching).at(-1)?.type).toBe('built');
    await expect.poll(() => unnamed(mark), { timeout: 30_000 }).toEqual([]);
  });

  test('is joined again by those who watch when the sessions service is killed', slow, async () => {
    const begun = Promise.withResolvers<void>();
    const watching = build('sessions', begun.resolve);
    await begun.promise;
    expect(stack.stack.kill('sessions')).toBe(true);
    expect((await watching).at(-1)?.type).toBe('built');
  });

  test('is given up when the last who watched has left', slow, async () => {
    const containers: string[] = [];
    const watch = async (): Promise<void> => {
      for await (const event of stack.client.samples.build({ dataset: 'examples', id: 'left' })) {
        if (event.type !== 'progress') continue;
        const container = /^ ---> Running in (\w+)$/.exec(event.line)?.[1];
        if (container !== undefined) containers.push(container);
        if (event.line === 'begun') return;
      }
    };
    await Promise.all([watch(), watch()]);
    const running = docker.getContainer(containers.at(-1) ?? '');
    await expect
      .poll(
        () =>
          running.inspect().then(
            () => 'there',
            () => 'gone',
          ),
        { timeout: 60_000 },
      )
      .toBe('gone');
    await expect.poll(() => readdirSync(work()), { timeout: 60_000 }).toEqual([]);
  });
});
