import { describe, expect, test } from 'vitest';
import { parseSample } from '../../../services/shared/sample/parse-sample.ts';
import { planRuns } from '../../../services/shared/sample/run-plan.ts';
import { SampleError } from '../../../services/shared/sample/sample-error.ts';
import { sampleText } from './sample-text.ts';

const parse = (text: string) => parseSample(Buffer.from(text), 'examples/tiny');

function refusalOf(text: string): string {
  try {
    parse(text);
  } catch (error) {
    if (error instanceof SampleError) return error.message;
    throw error;
  }
  return 'accepted';
}

test('a small sample is filled up with defaults', () => {
  const sample = parse(sampleText());
  expect(sample.environment).toMatchObject({ workdir: '/workspace', user: 'agent', network: 'none', env: {} });
  expect(sample.verification).toMatchObject({
    timeout: 300,
    restore_paths: [],
    submission: { include: ['**'], max_files: 20_000 },
    reward: { from: 'verdict' },
  });
});

test('every field has its place', () => {
  const integrity = `sha512-${'A'.repeat(86)}==`;
  const sample = parse(
    sampleText({
      tags: ['a'],
      hints: ['look here'],
      'provenance.sources': [{ name: 'x.tgz', integrity }],
      codebase: [
        { from: 'npm', package: '@scope/name', version: '1.2.3', integrity },
        {
          from: 'tar',
          url: 'https://example.com/a.tar.gz',
          integrity: `sha256:${'0'.repeat(64)}`,
          strip: 0,
          to: 'lib',
        },
        {
          from: 'debian',
          package: 'jinja2',
          version: '3.1.2-1',
          archives: [{ name: 'a.tar.gz', integrity }],
          apply: ['x.patch'],
        },
        { from: 'patch', path: 'p.patch', reverse: true },
        { from: 'remove', paths: ['dist'] },
      ],
      environment: {
        image: 'debian:12',
        memory: '512m',
        disk: 1073741824,
        cpus: 0.5,
        pids: 64,
        network: 'egress',
        egress_hosts: ['pypi.org'],
      },
      oracle: { patch: 'oracle.patch' },
    }),
  );
  expect(sample.environment).toMatchObject({ memory: 536_870_912, disk: 1_073_741_824 });
  expect(sample.codebase[1]).toMatchObject({ strip: 0, to: 'lib' });
});

const bad: [path: string, value: unknown, expected: string][] = [
  ['format', 'assay/2', 'format: expected assay/1, found "assay/2"'],
  ['id', '../x', 'id: expected the sample\'s id of up to 128 letters, digits and . _ -, found "../x"'],
  ['dataset', undefined, "dataset: expected the dataset's name of up to 128"],
  ['version', 3, 'version: expected a version such as 1.0.0, found 3'],
  ['instruction', '  ', 'instruction: expected text of 1 to 262144 bytes'],
  ['surprise', 1, 'expected none but the keys format, dataset'],
  ['codebase', [], 'codebase: expected at least one part, found a list of 0'],
  ['codebase', [{ from: 'git', url: 'x' }], 'codebase.0.from: expected a part with from: files, tar, npm'],
  ['codebase', [{ from: 'files', path: '../x' }], 'codebase.0.path: expected a folder of the sample such as'],
  ['codebase', [{ from: 'files', path: '/etc' }], 'codebase.0.path: expected'],
  [
    'codebase',
    [{ from: 'npm', package: 'x', version: '^1.0.0', integrity: 'md5' }],
    'codebase.0.version: expected an exact version',
  ],
  [
    'codebase',
    [{ from: 'tar', url: 'file:///etc', integrity: 'x' }],
    'codebase.0.url: expected an http or https address',
  ],
  ['environment.memory', '1 MiB', 'environment.memory: expected a size from 16777216'],
  ['environment.memory', 5, 'environment.memory: expected a size from 16777216'],
  ['environment.cpus', 1000, 'environment.cpus: expected a number of cores from 0.05 to 64, found 1000'],
  ['environment.workdir', '/a b', 'environment.workdir: expected an absolute path such as /workspace, found "/a b"'],
  ['environment.workdir', '/a/../b', 'environment.workdir: expected'],
  ['environment.user', 'agent\nRUN id', "environment.user: expected a user's name"],
  ['environment.user', '-u', "environment.user: expected a user's name"],
  ['environment.user', '$USER', "environment.user: expected a user's name"],
  ['environment.user', 'agent:root', "environment.user: expected a user's name"],
  ['environment.user', '0', "environment.user: expected a user's name"],
  ['environment.user', '', "environment.user: expected a user's name"],
  ['environment.user', 'a'.repeat(33), "environment.user: expected a user's name"],
  ['environment.env', { 'A-B': 'x' }, 'environment.env'],
  ['environment.network', 'host', 'environment.network: expected none, egress or full, found "host"'],
  ['environment.egress_hosts', ['pypi.org'], 'environment.egress_hosts: expected no hosts unless network is egress'],
  ['environment', { image: 'a', dockerfile: 'b' }, 'environment.dockerfile: expected one of image and dockerfile'],
  ['verification.timeout', 0, 'verification.timeout: expected seconds from 1 to 86400, found 0'],
  [
    'verification.reports',
    [{ format: 'tap' }],
    'verification.reports.0.path: expected a path for every format but exit-status',
  ],
  [
    'verification.reports',
    [{ format: 'html', path: 'x' }],
    'verification.reports.0.format: expected one of junit, tap',
  ],
  ['verification.fail_to_pass.tests', [], 'verification.fail_to_pass.tests: expected at least one test'],
  [
    'verification.fail_to_pass.tests',
    ['a', 'a'],
    'verification.fail_to_pass.tests.1: expected a test that is named once',
  ],
  [
    'verification.fail_to_pass.tests',
    ['trap'],
    'verification.sentinel_fail.tests.0: expected a test that is named once',
  ],
  ['verification.fail_to_pass.assurance', 'SURE', 'verification.fail_to_pass.assurance: expected one of ISOLATED'],
  ['verification.sentinel_fail.command', undefined, 'verification.sentinel_fail.command: expected a command'],
  [
    'verification.pass_to_pass',
    { assurance: 'IN_PROCESS', tests: ['k'] },
    'verification.pass_to_pass.command: expected a command of its own',
  ],
  ['verification.submission', { include: ['../x'] }, 'verification.submission.include.0: expected a pattern'],
  ['verification.reward', { from: 'luck' }, 'verification.reward.from: expected from: verdict'],
  ['oracle', { patch: 'a', files: 'b' }, 'oracle: expected one of patch, files and script'],
];

describe('what is wrong is told by file, line, path and expectation', () => {
  test.each(bad)('%s: %j', (path, value, expected) => {
    const message = refusalOf(sampleText({ [path]: value }));
    expect(message).toContain(expected);
    expect(message).toMatch(/^examples\/tiny is not a sample:\n {2}sample\.yaml:\d+: /);
  });

  test('all of it at once', () => {
    const message = refusalOf(sampleText({ id: '', version: '', 'verification.timeout': -1 }));
    expect(message.split('\n')).toHaveLength(4);
  });

  test('the line is that of the value', () => {
    expect(refusalOf('format: assay/1\ndataset: d\n\nid: "a b"\n')).toContain('sample.yaml:4: id: expected');
  });
});

describe('hostile YAML', () => {
  const bomb = `a: &a [x,x,x,x,x,x,x,x,x]\n${'bcdefghi'
    .split('')
    .map((name, index) => `${name}: &${name} [${`*${'abcdefgh'[index]},`.repeat(9)}]`)
    .join('\n')}\n`;
  test.each([
    ['aliases that multiply', bomb],
    ['one alias', 'a: &x 1\nb: *x\n'],
    ['nesting without end', `a: ${'['.repeat(20_000)}`],
    ['keys twice', 'format: assay/1\nformat: assay/1\n'],
    ['a tag that makes objects', '!!js/function "x"\n'],
    ['two documents', 'a: 1\n---\nb: 2\n'],
    ['no map', '- a\n'],
    ['nothing', ''],
    ['a prototype', '__proto__: {format: assay/1}\n'],
  ])('%s', (_, text) => {
    expect(refusalOf(text)).toContain('sample.yaml');
    expect(Object.keys(Object.prototype)).toEqual([]);
  });

  test('bytes that are not UTF-8', () => {
    expect(() => parseSample(Buffer.from([0x61, 0xff]), 'x')).toThrow('expected text in UTF-8');
  });

  test('too much of it', () => {
    expect(() => parseSample(Buffer.alloc(5_000_000, 0x23), 'x')).toThrow('at most 4194304 bytes');
  });
});

describe('the runs of a verification', () => {
  test('roles without a command share one; sentinels run by themselves, last', () => {
    const { verification } = parse(
      sampleText({ 'verification.pass_to_pass': { assurance: 'ISOLATED', tests: ['keeps'] } }),
    );
    expect(planRuns(verification)).toMatchObject([
      { name: 'tests', roles: ['fail_to_pass', 'pass_to_pass'], assurance: 'ISOLATED', timeoutSeconds: 300 },
      { name: 'sentinel_fail', roles: ['sentinel_fail'], command: 'python3 -I sentinel.py' },
    ]);
  });

  test('a role with less assurance has a run of its own, with its own reports', () => {
    const passing = {
      assurance: 'IN_PROCESS',
      tests: ['keeps'],
      command: ['pytest'],
      timeout: 9,
      reports: [{ format: 'exit-status' }],
    };
    const { verification } = parse(sampleText({ 'verification.pass_to_pass': passing }));
    const runs = planRuns(verification);
    expect(runs.map(({ name, assurance, timeoutSeconds }) => [name, assurance, timeoutSeconds])).toEqual([
      ['tests', 'ISOLATED', 300],
      ['pass_to_pass', 'IN_PROCESS', 9],
      ['sentinel_fail', 'ISOLATED', 300],
    ]);
  });
});
