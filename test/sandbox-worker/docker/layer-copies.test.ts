import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createLayerCopies } from '../../../services/sandbox-worker/docker/layer-copies.ts';
import { runDirectory } from '../../run.ts';

let root: string;
let layer: string;
let directory: string;
beforeEach(() => {
  root = mkdtempSync(join(runDirectory(), 'copies-'));
  layer = join(root, 'overlay2', 'a'.repeat(64));
  directory = join(root, 'layers');
  mkdirSync(join(layer, 'diff'), { recursive: true });
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const copies = () => createLayerCopies({ directory, floorBytes: 0 });
/** Shell text that sets or prints what marks a directory as opaque. */
const attribute = (call: string, value = ''): string =>
  `python3 -c "import os; print(os.${call}('opaque', 'trusted.overlay.opaque'${value}))"`;
/** All that an overlay looks at. */
const described = (tree: string): string =>
  execFileSync('sh', ['-c', "find . -printf '%P %y %m %U:%G %n %s %l %T@\\n' | sort; stat -c '%n %t,%T' ./*"], {
    cwd: tree,
    encoding: 'utf8',
  });

// Whiteouts and owners take root.
describe.skipIf(process.getuid?.() !== 0)('a copy of a layer', () => {
  test('has its owners, modes, times, hard links, whiteouts and attributes, and inodes of its own', async () => {
    const make = `mkdir opaque; ${attribute('setxattr', ", b'y'")}; mknod gone c 0 0; echo text > file; chown 1000:64990 file
chmod 4750 file; ln file again; ln -s /nowhere link; touch -d '2001-02-03 04:05:06.789' file; mkfifo pipe; chmod 700 .`;
    execFileSync('sh', ['-ec', make], { cwd: join(layer, 'diff') });
    const copy = join(await copies().ensure([layer]), basename(layer), 'diff');
    expect(described(copy)).toBe(described(join(layer, 'diff')));
    expect(execFileSync('sh', ['-c', attribute('getxattr')], { cwd: copy, encoding: 'utf8' })).toBe("b'y'\n");
    expect(statSync(join(copy, 'file')).ino).toBe(statSync(join(copy, 'again')).ino);
    expect(statSync(join(copy, 'file')).ino).not.toBe(statSync(join(layer, 'diff', 'file')).ino);
  });

  test('is not begun where the disk has no room for it', async () => {
    writeFileSync(join(layer, 'diff', 'file'), Buffer.alloc(2_097_152, 1));
    mkdirSync(directory);
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', directory]);
    try {
      await expect(copies().ensure([layer])).rejects.toMatchObject({ reason: 'HOST_FULL' });
      expect(readdirSync(directory).flatMap((boot) => readdirSync(join(directory, boot)))).toEqual([]);
    } finally {
      execFileSync('umount', [directory]);
    }
  });

  test('is made once, however many ask for it', async () => {
    writeFileSync(join(layer, 'diff', 'file'), 'text');
    const made = copies();
    const [current = ''] = await Promise.all([made.ensure([layer]), made.ensure([layer]), copies().ensure([layer])]);
    expect(readdirSync(current)).toEqual([basename(layer)]);
    const { ino } = statSync(join(current, basename(layer), 'diff', 'file'));
    await made.ensure([layer]);
    expect(statSync(join(current, basename(layer), 'diff', 'file')).ino).toBe(ino);
  });

  test('goes with its layer, and so does what was begun by a process that died or before the host was started', async () => {
    const made = copies();
    const current = await made.ensure([layer]);
    const before = join(directory, 'another-boot', 'b'.repeat(64), 'diff');
    // No process has this number.
    const begun = join(current, 'tmp-4194305-abc', 'diff');
    for (const path of [before, begun]) mkdirSync(path, { recursive: true });
    await made.sweep();
    expect(readdirSync(directory)).toEqual([basename(current)]);
    expect(readdirSync(current)).toEqual([basename(layer)]);
    rmSync(layer, { recursive: true });
    await made.sweep();
    expect(readdirSync(current)).toEqual([]);
    expect(existsSync(begun)).toBe(false);
  });
});
