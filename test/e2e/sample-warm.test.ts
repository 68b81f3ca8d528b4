import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Docker from 'dockerode';
import { expect, inject, test } from 'vitest';
import { digestOf } from '../../services/shared/sample/digest.ts';
import { readSample } from '../../services/shared/sample/read-sample.ts';
import { runDirectory, runId } from '../run.ts';
import { startTestStack } from './stack.ts';

const shipped = new URL('../../datasets/examples/hello-fix', import.meta.url).pathname;
const hello = { dataset: 'examples', id: 'hello-fix' };

test('sessions of a sample wait in the warm pool once its image is there', async () => {
  const { baseImage, dockerSocket } = inject('setup');
  const datasets = mkdtempSync(join(runDirectory(), 'datasets-'));
  const folder = join(datasets, 'examples/hello-fix');
  cpSync(shipped, folder, { recursive: true });
  writeFileSync(join(folder, 'code/RUN'), `${runId()}\n`);
  const { digests } = await readSample(folder);
  const hex = digestOf('assay sample image 1', [digests.image, baseImage]).slice('sha256:'.length);
  const wish = `assay/sample:${hex};memory=${256 * 2 ** 20};disk=${256 * 2 ** 20};pids=64=1`;
  const env = { sessions: { ASSAY_DATASETS: datasets }, worker: { ASSAY_WARM_POOL: wish } };
  const stack = await startTestStack({ env });
  try {
    const built = (await Array.fromAsync(stack.client.samples.build(hello))).at(-1);
    expect(built).toMatchObject({ type: 'built', image: `assay/sample:${hex}` });
    const warm = async () => (await Array.fromAsync(stack.client.workers.list()))[0]?.warmCount;
    await expect.poll(warm, { timeout: 120_000 }).toBe(1);
    await using session = await stack.client.sessions.create({ sample: hello });
    expect(session.info).toMatchObject({ warm: true, sample: hello });
    expect((await session.run('pwd; python3 ranges.py sum 1 3')).stdout.toString()).toBe('/workspace\n3\n');
    await using plain = await stack.client.sessions.create();
    expect((await plain.run('ls')).stdout.toString()).toBe('');
  } finally {
    await stack.stop();
    await new Docker({ socketPath: dockerSocket, host: undefined })
      .getImage(`assay/sample:${hex}`)
      .remove({ force: true });
    rmSync(datasets, { recursive: true, force: true });
  }
});
