import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { defaultFolderLimits, readSample } from '../../../services/shared/sample/read-sample.ts';
import { runDirectory } from '../../run.ts';
import { sampleText } from './sample-text.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(runDirectory(), 'sample-'));
  put('sample.yaml', sampleText());
  put('code/main.py', 'print(1)\n');
  put('tests/run.py', 'pass\n');
  put('oracle/fix.patch', 'x\n');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function put(path: string, content: string | Buffer): void {
  mkdirSync(join(folder, path, '..'), { recursive: true });
  writeFileSync(join(folder, path), content);
}

const digests = async () => (await readSample(folder)).digests;
const refusal = (limits = defaultFolderLimits) =>
  readSample(folder, limits).then(
    () => 'accepted',
    (error: Error) => error.message,
  );

describe('digests', () => {
  test('are the same for a copy, whatever its times and owners', async () => {
    const before = await digests();
    const first = folder;
    folder = `${first}-copy`;
    execFileSync('cp', ['-R', first, folder]);
    utimesSync(join(folder, 'code/main.py'), 1, 1);
    expect(await digests()).toEqual(before);
    rmSync(first, { recursive: true });
  });

  test.each<[string, () => void, Record<'content' | 'image' | 'verification', boolean>]>([
    ['the code', () => put('code/main.py', 'print(2)\n'), { content: true, image: true, verification: false }],
    ['a hidden test', () => put('tests/run.py', 'fail\n'), { content: true, image: false, verification: true }],
    ['the oracle', () => put('oracle/fix.patch', 'y\n'), { content: true, image: false, verification: false }],
    ['a file that nobody names', () => put('README', 'x'), { content: true, image: false, verification: false }],
    [
      'the instruction',
      () => put('sample.yaml', sampleText({ instruction: 'Other.' })),
      { content: true, image: false, verification: false },
    ],
    [
      'a timeout',
      () => put('sample.yaml', sampleText({ 'verification.timeout': 5 })),
      { content: true, image: false, verification: true },
    ],
    [
      'set-up',
      () => put('sample.yaml', sampleText({ 'environment.setup': 'make' })),
      { content: true, image: true, verification: false },
    ],
    [
      'a memory limit',
      () => put('sample.yaml', sampleText({ 'environment.memory': '64m' })),
      { content: true, image: false, verification: false },
    ],
    [
      'an executable bit',
      () => chmodSync(join(folder, 'code/main.py'), 0o755),
      { content: true, image: true, verification: false },
    ],
    [
      'an empty folder',
      () => mkdirSync(join(folder, 'code/empty')),
      { content: true, image: true, verification: false },
    ],
  ])('%s changes just what depends on it', async (_, change, changed) => {
    const before = await digests();
    change();
    const after = await digests();
    expect({
      content: after.content !== before.content,
      image: after.image !== before.image,
      verification: after.verification !== before.verification,
    }).toEqual(changed);
    expect(after.content).toMatch(/^sha256:[0-9a-f]{64}$/);
  });

  test('a file and a folder cannot be arranged to look like others', async () => {
    put('code/a', 'bc');
    const before = await digests();
    rmSync(join(folder, 'code/a'));
    put('code/ab', 'c');
    expect(await digests()).not.toEqual(before);
  });
});

describe('hostile folders', () => {
  test('a relative link inside stays a link, and is not followed', async () => {
    symlinkSync('main.py', join(folder, 'code/alias.py'));
    const { entries } = await readSample(folder);
    expect(entries.find(({ path }) => path === 'code/alias.py')).toEqual({
      kind: 'link',
      path: 'code/alias.py',
      target: 'main.py',
    });
  });

  test.each(['/etc/passwd', '../../../etc/passwd', '../..', 'main.py/../../../x'])(
    'a link to %s is refused',
    async (target) => {
      symlinkSync(target, join(folder, 'code/link'));
      expect(await refusal()).toContain('code/link: expected a link to something in the same folder');
    },
  );

  test('a link to itself is only a link', async () => {
    symlinkSync('loop', join(folder, 'code/loop'));
    expect(await refusal()).toBe('accepted');
  });

  test('sample.yaml as a link is refused', async () => {
    rmSync(join(folder, 'sample.yaml'));
    put('other.yaml', sampleText());
    symlinkSync('other.yaml', join(folder, 'sample.yaml'));
    expect(await refusal()).toContain('sample.yaml: expected a file, found a link');
  });

  test('a hard link is a file like any other', async () => {
    linkSync(join(folder, 'code/main.py'), join(folder, 'code/twin.py'));
    expect(await refusal()).toBe('accepted');
  });

  test('a FIFO is refused and does not hold the reader up', async () => {
    execFileSync('mkfifo', [join(folder, 'code/fifo')]);
    expect(await refusal()).toContain('code/fifo: expected a file, a folder or a link, found a device, socket or FIFO');
  });

  test('a socket is refused', async () => {
    const server = createServer().listen(join(folder, 's'));
    expect(await refusal()).toContain('s: expected a file, a folder or a link');
    server.close();
  });

  test('a sparse file of a terabyte is refused by the limit', async () => {
    put('code/big', '');
    truncateSync(join(folder, 'code/big'), 2 ** 40);
    expect(await refusal({ bytes: 1_000_000, files: 100 })).toContain(
      'code/big: expected at most 1000000 bytes in all',
    );
  });

  test('too many entries are refused', async () => {
    for (let index = 0; index < 20; index += 1) put(`code/f${index}`, '');
    expect(await refusal({ bytes: 1_000_000, files: 10 })).toContain('expected at most 10 entries');
  });

  test('folders nested without end are refused', async () => {
    mkdirSync(join(folder, 'code', ...Array.from({ length: 80 }, () => 'd')), { recursive: true });
    expect(await refusal()).toContain('expected at most 64 nested folders');
  });

  test.each([
    ['a newline', 'a\nb'],
    ['an escape', 'a\u001bb'],
  ])('a name with %s is refused', async (_, name) => {
    put(join('code', name), '');
    expect(await refusal()).toContain('a name in UTF-8 without control characters');
  });

  test('a name that is not UTF-8 is refused', async () => {
    writeFileSync(Buffer.concat([Buffer.from(`${folder}/code/`), Buffer.from([0xff])]), '');
    expect(await refusal()).toContain('a name in UTF-8');
  });

  test('what sample.yaml names has to be there, as what it is named for', async () => {
    put(
      'sample.yaml',
      sampleText({
        codebase: [{ from: 'files', path: 'code/main.py' }],
        'verification.tests': 'none',
        oracle: { patch: 'oracle' },
      }),
    );
    const message = await refusal();
    expect(message).toContain(
      'codebase.0.path: expected a folder of the sample, found "code/main.py", which is a file',
    );
    expect(message).toContain('verification.tests: expected a folder of the sample, found "none", which is none');
    expect(message).toContain('oracle.patch: expected a file of the sample, found "oracle", which is a directory');
  });

  test.each([
    ['code', 'codebase.0.path'],
    ['image', 'environment.dockerfile'],
  ])('a patch in the folder %s, where an agent would find it, is refused', async (shown, key) => {
    const codebase = [
      { from: 'files', path: 'code' },
      { from: 'patch', path: `${shown}/fix.patch` },
    ];
    put('image/Dockerfile', 'FROM scratch\n');
    put(`${shown}/fix.patch`, 'x\n');
    put('sample.yaml', sampleText({ codebase, 'environment.dockerfile': 'image/Dockerfile' }));
    expect(await refusal()).toContain(`${key}: expected a folder apart from hidden tests, oracle and patches`);
  });

  test('a folder without sample.yaml says so', async () => {
    rmSync(join(folder, 'sample.yaml'));
    expect(await refusal()).toContain('sample.yaml: expected a file, found nothing');
  });
});
