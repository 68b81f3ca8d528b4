import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { toJsonString } from '@bufbuild/protobuf';
import { extract } from 'tar-stream';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { Scope } from '../../../gen/assay/v1/key_pb.js';
import {
  GetSampleResponseSchema,
  type ListSamplesResponse,
  ListSamplesResponseSchema,
} from '../../../gen/assay/v1/sample_pb.js';
import { TestRole } from '../../../gen/assay/v1/types_pb.js';
import { runDirectory } from '../../run.ts';
import { reasonOf } from '../reason.ts';
import { adminKey, clientsOf, type RunningService, runService } from '../running-service.ts';
import { writeSample } from './sample-folder.ts';

let root: string;
let service: RunningService;
let agent: ReturnType<typeof clientsOf>['samples'];
let grader: ReturnType<typeof clientsOf>['samples'];

beforeAll(async () => {
  root = mkdtempSync(join(runDirectory(), 'datasets-'));
  writeSample(root, 'first/alpha', { title: 'Mend the parser', tags: ['parser', 'easy'], language: 'python' });
  writeSample(root, 'first/beta', {
    ...{ title: 'Mend the printer', tags: ['printer'], language: 'c' },
    'verification.pause_sessions': true,
  });
  writeSample(root, 'first/gamma/1.9.0', { version: '1.9.0' });
  const parts = [
    { from: 'files', path: 'gold' },
    { from: 'remove', paths: ['gold_test.py'] },
    { from: 'files', path: 'code' },
  ];
  const gamma = { version: '1.10.0', title: 'The newest', codebase: parts };
  writeSample(root, 'first/gamma/1.10.0', { ...gamma, 'environment.dockerfile': 'gold/image/Dockerfile' });
  mkdirSync(join(root, 'first/gamma/1.10.0/gold/image'), { recursive: true });
  writeFileSync(join(root, 'first/gamma/1.10.0/gold/gold_test.py'), 'SECRET test\n');
  writeFileSync(join(root, 'first/gamma/1.10.0/gold/image/Dockerfile'), 'FROM SECRET\n');
  writeSample(root, 'second/alpha', { title: 'Another parser' });
  writeSample(root, 'second/broken', { instruction: '' });
  writeSample(root, 'second/moved', { id: 'elsewhere' });
  service = await runService({ env: { ASSAY_DATASETS: root } });
  agent = clientsOf(service.transport((await service.makeKey(Scope.AGENT)).secret)).samples;
  grader = clientsOf(service.transport((await service.makeKey(Scope.GRADER)).secret)).samples;
});
afterAll(async () => {
  await service.stop();
  rmSync(root, { recursive: true });
});

const keys = (page: ListSamplesResponse) => page.samples.map(({ name }) => `${name?.datasetId}/${name?.sampleId}`);

async function download(client: typeof agent, sampleId: string) {
  const stream = client.downloadSample({ sample: { datasetId: 'first', sampleId } });
  const files = new Map<string, string>();
  let head: unknown;
  const chunks: Uint8Array[] = [];
  for await (const { part } of stream) {
    if (part.case === 'head') head = part.value;
    if (part.case === 'data') chunks.push(part.value);
  }
  const tar = extract();
  Readable.from(chunks).pipe(tar as unknown as NodeJS.WritableStream);
  for await (const entry of tar) files.set(entry.header.name, await text(entry));
  return { head, files, largest: Math.max(...chunks.map(({ length }) => length)) };
}

describe('datasets', () => {
  test('are listed with what is wrong in them, which graders alone are told', async () => {
    const { datasets } = await grader.listDatasets({});
    expect(datasets.map(({ datasetId, sampleCount }) => [datasetId, sampleCount])).toEqual([
      ['first', 3],
      ['second', 1],
    ]);
    expect(datasets[1]?.problems).toEqual([
      expect.stringMatching(/^second\/broken is not a sample:\n {2}sample\.yaml:\d+: instruction: expected text/),
      expect.stringContaining('id: expected moved, the name of its folder, found elsewhere'),
    ]);
    const told = (await agent.listDatasets({})).datasets;
    expect(told.flatMap(({ problems }) => problems)).toEqual([]);
  });
});

describe('lists of samples', () => {
  test('have the newest version of each, by dataset and id', async () => {
    const page = await agent.listSamples({});
    expect(keys(page)).toEqual(['first/alpha', 'first/beta', 'first/gamma', 'second/alpha']);
    expect(page.samples[2]).toMatchObject({ name: { version: '1.10.0' }, title: 'The newest', instruction: '' });
  });

  test.each([
    [{ datasetId: 'second' }, ['second/alpha']],
    [{ language: 'C' }, ['first/beta']],
    [{ tags: ['parser', 'easy'] }, ['first/alpha']],
    [{ query: 'parser' }, ['first/alpha', 'second/alpha']],
    [{ query: 'print' }, ['first/beta']],
    [{ query: 'mend parser' }, ['first/alpha', 'second/alpha']],
    [{ query: 'parser printer' }, []],
    [{ query: '"\\^$*+?.()|[]{}' }, []],
    [{ query: 'SECRET' }, []],
  ])('%j finds %j', async (request, expected) => {
    expect(keys(await agent.listSamples(request))).toEqual(expected);
  });

  test('come in pages that belong to their query', async () => {
    for (const query of ['', 'mend']) {
      const seen: string[] = [];
      let pageToken = '';
      do {
        const page = await agent.listSamples({ query, pageSize: 1, pageToken });
        expect(page.samples).toHaveLength(1);
        seen.push(...keys(page));
        pageToken = page.nextPageToken;
      } while (pageToken !== '');
      expect(seen).toEqual(keys(await agent.listSamples({ query })));
    }
    const { nextPageToken } = await agent.listSamples({ pageSize: 1 });
    const other = await agent.listSamples({ query: 'mend', pageToken: nextPageToken }).catch((error) => error);
    expect(reasonOf(other)).toBe('INVALID_PAGE_TOKEN');
  });

  test.each([
    [{ datasetId: '../x' }, 'INVALID_FIELD'],
    [{ datasetId: 'third' }, 'DATASET_NOT_FOUND'],
    [{ query: 'x'.repeat(257) }, 'LIMIT_EXCEEDED'],
    [{ tags: Array.from({ length: 33 }, () => 'a') }, 'LIMIT_EXCEEDED'],
    [{ tags: [''] }, 'INVALID_FIELD'],
    [{ pageSize: -1 }, 'INVALID_FIELD'],
  ])('%j is refused with %s', async (request, reason) => {
    expect(reasonOf(await agent.listSamples(request).catch((error) => error))).toBe(reason);
  });
});

describe('one sample', () => {
  test('has its instruction, versions and digests', async () => {
    const { sample } = await agent.getSample({ sample: { datasetId: 'first', sampleId: 'gamma' } });
    expect(sample).toMatchObject({
      name: { version: '1.10.0' },
      instruction: 'Mend it.',
      versions: ['1.10.0', '1.9.0'],
      hintCount: 1,
      hints: [],
    });
    for (const digest of [sample?.contentDigest, sample?.imageDigest, sample?.verificationDigest]) {
      expect(digest).toMatch(/^sha256:[0-9a-f]{64}$/);
    }
    const { sample: older } = await agent.getSample({
      sample: { datasetId: 'first', sampleId: 'gamma', version: '1.9.0' },
    });
    expect(older?.name?.version).toBe('1.9.0');
    expect(older?.contentDigest).not.toBe(sample?.contentDigest);
  });

  test.each([
    [{ sample: { datasetId: 'first', sampleId: 'delta' } }, 'SAMPLE_NOT_FOUND', 'ListSamples shows'],
    [
      { sample: { datasetId: 'first', sampleId: 'gamma', version: '3' } },
      'SAMPLE_NOT_FOUND',
      'there are 1.10.0, 1.9.0',
    ],
    [{ sample: { datasetId: 'second', sampleId: 'broken' } }, 'SAMPLE_NOT_FOUND', 'no sample broken'],
    [{ sample: { datasetId: 'nope', sampleId: 'a' } }, 'DATASET_NOT_FOUND', 'ListDatasets shows'],
    [{ sample: { datasetId: 'first', sampleId: '../../etc' } }, 'INVALID_FIELD', 'sample.sample_id'],
    [{ sample: { datasetId: 'first', sampleId: 'a', version: '/' } }, 'INVALID_FIELD', 'sample.version'],
  ])('%j is refused with %s', async (request, reason, message) => {
    const error = await agent.getSample(request).catch((e) => e);
    expect(reasonOf(error)).toBe(reason);
    expect(String(error)).toContain(message);
  });
});

test('a sample tells agents too whether sessions stand still while it is graded', async () => {
  const paused = async (sampleId: string) =>
    (await agent.getSample({ sample: { datasetId: 'first', sampleId } })).sample?.verification?.pauseSessions;
  expect(await paused('alpha')).toBe(false);
  expect(await paused('beta')).toBe(true);
});

describe('what only graders may know', () => {
  test('is in no answer to an agent', async () => {
    const name = { sample: { datasetId: 'first', sampleId: 'alpha' } };
    const got = toJsonString(GetSampleResponseSchema, await agent.getSample(name));
    const listed = toJsonString(ListSamplesResponseSchema, await agent.listSamples({}));
    expect(got + listed).not.toMatch(/SECRET|sentinel|hasOracle|trap/);
    const hinted = toJsonString(GetSampleResponseSchema, await agent.getSample({ ...name, hints: true }));
    expect(hinted.match(/SECRET[^"]*/g)).toEqual(['SECRET hint']);
  });

  test('is told to a grader', async () => {
    const { sample } = await grader.getSample({ sample: { datasetId: 'first', sampleId: 'alpha' } });
    expect(sample?.verification).toMatchObject({
      hasOracle: true,
      testGroups: [
        { role: TestRole.FAIL_TO_PASS, tests: ['SECRET test name'] },
        { role: TestRole.SENTINEL_FAIL, tests: ['trap'] },
      ],
    });
    expect(sample?.provenance?.origin).toBe('SECRET origin');
  });

  test('is in no archive of an agent: not the code before a patch or a removal changed it', async () => {
    const { head, files } = await download(agent, 'alpha');
    expect(head).toMatchObject({ complete: false, sample: { version: '1.0.0' } });
    expect([...files.keys()]).toEqual(['sample.yaml']);
    expect([...files.values()].join('\n')).not.toMatch(/SECRET|sentinel|trap|code\b/);
  });

  test('is in no archive of an agent, which has the code that nothing changed afterwards', async () => {
    const { files, largest } = await download(agent, 'gamma');
    expect([...files.keys()].sort()).toEqual([
      'code/',
      'code/deep/',
      'code/deep/data.bin',
      'code/main.py',
      'sample.yaml',
    ]);
    expect([...files.values()].join('\n')).not.toMatch(/SECRET|sentinel|trap/);
    expect(files.get('code/main.py')).toBe('print("the code")\n');
    expect(largest).toBeLessThanOrEqual(65_536);
  });

  test('is in the archive of a grader, which is the whole folder', async () => {
    const { head, files } = await download(grader, 'alpha');
    expect(head).toMatchObject({ complete: true });
    expect(files.get('tests/run.py')).toBe('SECRET hidden test\n');
    expect(files.get('oracle/fix.patch')).toBe('SECRET oracle\n');
    expect(files.get('NOTES')).toBe('SECRET notes\n');
    expect(files.get('code/deep/data.bin')).toHaveLength(200_000);
  });

  test('an admin key sees it too', async () => {
    const admin = clientsOf(service.transport(adminKey)).samples;
    expect(
      (await admin.getSample({ sample: { datasetId: 'first', sampleId: 'alpha' } })).sample?.verification?.hasOracle,
    ).toBe(true);
  });
});

describe('changes', () => {
  const ids = async () => keys(await agent.listSamples({ datasetId: 'first' }));

  test('a sample that appears, changes and goes is seen without a restart', async () => {
    const aside = mkdtempSync(join(runDirectory(), 'aside-'));
    writeSample(aside, 'first/omega');
    renameSync(join(aside, 'first/omega'), join(root, 'first/omega'));
    rmSync(aside, { recursive: true });
    await vi.waitUntil(async () => (await ids()).includes('first/omega'), { timeout: 120_000, interval: 50 });
    const digest = async () =>
      (await agent.getSample({ sample: { datasetId: 'first', sampleId: 'omega' } })).sample?.contentDigest;
    const before = await digest();
    writeFileSync(join(root, 'first/omega/code/main.py'), 'print("changed")\n');
    await vi.waitUntil(async () => (await digest()) !== before, { timeout: 120_000, interval: 50 });
    rmSync(join(root, 'first/omega'), { recursive: true });
    await vi.waitUntil(async () => !(await ids()).includes('first/omega'), { timeout: 120_000, interval: 50 });
  });

  test('a file that changed after it was indexed ends the download instead of being sent', async () => {
    const path = join(root, 'first/beta/code/main.py');
    // The clock of the index is the folder; a change that it has not seen yet is found by the hash.
    writeFileSync(path, 'print("THE code")\n');
    const error = await download(grader, 'beta').catch((e) => e);
    const outcome = error instanceof Error ? reasonOf(error) : error.files.get('code/main.py');
    expect(['SAMPLE_CHANGED', 'print("THE code")\n']).toContain(outcome);
  });

  test('a folder without datasets is no error', async () => {
    const empty = mkdtempSync(join(runDirectory(), 'empty-'));
    mkdirSync(join(empty, '.git'));
    const other = await runService({ env: { ASSAY_DATASETS: join(empty, 'missing') } });
    expect((await clientsOf(other.transport(adminKey)).samples.listDatasets({})).datasets).toEqual([]);
    await other.stop();
    rmSync(empty, { recursive: true });
  });
});
