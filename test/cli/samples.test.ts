import { afterEach, expect, test } from 'vitest';
import { createClient } from '../../clients/typescript/index.ts';
import { BuildStep } from '../../gen/assay/v1/sample_pb.js';
import { Assurance, TestRole } from '../../gen/assay/v1/types_pb.js';
import { type DoubleServices, type ServerDouble, startServerDouble } from '../clients/typescript/server-double.ts';
import { runCaptured } from './captured-terminal.ts';

const servers: ServerDouble[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.stop();
});

async function serve(sample: DoubleServices['sample'] & object): Promise<string> {
  const server = await startServerDouble({ sample });
  servers.push(server);
  return server.endpoint;
}

const group = (role: TestRole, testCount: number, tests: string[] = []) => ({
  role,
  testCount,
  tests,
  assurance: Assurance.ISOLATED,
});
const one = {
  name: { datasetId: 'examples', sampleId: 'hello-fix', version: '1.0.0' },
  language: 'python',
  title: 'Off by one',
  hintCount: 2,
  verification: {
    assurance: Assurance.ISOLATED,
    testGroups: [group(TestRole.FAIL_TO_PASS, 2), group(TestRole.PASS_TO_PASS, 3), group(TestRole.SENTINEL_FAIL, 1)],
  },
};

test('samples ls prints a table over all pages and passes the filters on', async () => {
  const asked: unknown[] = [];
  const endpoint = await serve({
    listSamples({ datasetId, query, language, tags, pageToken }) {
      asked.push({ datasetId, query, language, tags });
      return pageToken === ''
        ? { samples: [one], nextPageToken: 'n' }
        : { samples: [{ ...one, name: { ...one.name, sampleId: 'other' } }] };
    },
  });
  const { stdout } = await runCaptured(
    ['samples', 'ls', 'examples', '-q', 'off', '--language', 'python', '--tag', 'a', '--tag', 'b'],
    endpoint,
  );
  expect(stdout.toString()).toMatch(
    /^SAMPLE +VERSION .*\nexamples\/hello-fix +1\.0\.0 +python +ISOLATED +5 +Off by one\nexamples\/other .*\n$/,
  );
  expect(asked[0]).toEqual({ datasetId: 'examples', query: 'off', language: 'python', tags: ['a', 'b'] });
});

test('samples show prints the fields, then the instruction', async () => {
  const endpoint = await serve({
    getSample: ({ sample, hints }) => ({
      sample: {
        ...one,
        name: { ...one.name, version: sample?.version || '1.0.0' },
        instruction: 'Mend it.\n',
        hints: hints ? ['Look at line 3.'] : [],
      },
    }),
  });
  const shown = await runCaptured(['samples', 'show', 'examples/hello-fix'], endpoint);
  expect(shown.stdout.toString()).toMatch(
    /^sample +examples\/hello-fix\n[\s\S]*fail_to_pass +2 tests, ISOLATED\n[\s\S]*hints +2, with --hints\n\nMend it\.\n$/,
  );
  const hinted = await runCaptured(['samples', 'show', 'examples/hello-fix', '--hints', '--version', '0.9'], endpoint);
  expect(hinted.stdout.toString()).toMatch(/version +0\.9\n[\s\S]*\n\nMend it\.\n\nhint 1: Look at line 3\.\n$/);
  const json = await runCaptured(['samples', 'show', 'examples/hello-fix', '-o', 'json'], endpoint);
  expect(JSON.parse(json.stdout.toString())).toMatchObject({ id: 'hello-fix', assurance: 'ISOLATED' });
});

test('samples show without a dataset says what to type', async () => {
  const endpoint = await serve({});
  const { code, stderr } = await runCaptured(['samples', 'show', 'hello-fix'], endpoint);
  expect(code).not.toBe(0);
  expect(stderr).toContain('type: assay samples show examples/hello-fix');
});

test('a download is its head and then its bytes', async () => {
  const endpoint = await serve({
    async *downloadSample() {
      yield { part: { case: 'head', value: { sample: { version: '1.0.0' }, complete: true } } };
      yield { part: { case: 'data', value: Buffer.from('one') } };
      yield { part: { case: 'data', value: Buffer.from('two') } };
    },
  });
  const client = createClient({ endpoint });
  const archive = await client.samples.download({ dataset: 'examples', id: 'hello-fix' });
  expect(archive).toMatchObject({ version: '1.0.0', complete: true });
  expect(Buffer.concat(await Array.fromAsync(archive.data)).toString()).toBe('onetwo');
  client.close();
});

test('samples build prints lines as they come, then where the image is', async () => {
  const endpoint = await serve({
    async *buildSample({ sample }) {
      const line = `building ${sample?.datasetId}/${sample?.sampleId} ${sample?.version}`;
      yield { news: { case: 'progress', value: { workerId: 'w', step: BuildStep.CODE, line, omittedLineCount: 7 } } };
      yield { news: { case: 'built', value: { workerId: 'w', image: 'assay/sample:1', imageId: 'sha256:1' } } };
    },
  });
  const { stdout, stderr } = await runCaptured(['samples', 'build', 'examples/hello-fix@2.0.0'], endpoint);
  expect([stderr, stdout.toString()]).toEqual([
    '… 7 lines left out\nbuilding examples/hello-fix 2.0.0\n',
    'assay/sample:1 on w\n',
  ]);
  const json = await runCaptured(['samples', 'build', '-o', 'json', 'examples/hello-fix'], endpoint);
  const lines = json.stdout.toString().trim().split('\n');
  expect(lines.map((line) => JSON.parse(line))).toEqual([
    { type: 'progress', workerId: 'w', step: 'CODE', line: 'building examples/hello-fix ', omittedLineCount: 7 },
    { type: 'built', workerId: 'w', image: 'assay/sample:1', imageId: 'sha256:1' },
  ]);
});
