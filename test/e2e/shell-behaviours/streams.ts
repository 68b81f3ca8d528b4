import { createHash } from 'node:crypto';
import { expect } from 'vitest';
import type { Behaviour } from './subject.ts';

const mebibyte = 1_048_576;

/** What goes in and what comes out. */
export const streams: readonly Behaviour[] = [
  [
    'stdout and stderr are apart (daytonaio/daytona#2067)',
    async (shell) => {
      expect(await shell.run('echo out; echo err >&2; exit_code() { return 7; }; exit_code')).toMatchObject({
        out: 'out\n',
        err: 'err\n',
        code: 7,
      });
    },
  ],
  [
    '/dev/stderr and /dev/stdout can be written by name',
    async (shell) => {
      const script =
        "echo e >/dev/stderr; echo o >/dev/stdout; sh -c 'echo child >/dev/stderr'; echo fd >/proc/self/fd/2";
      expect(await shell.run(script)).toMatchObject({ out: 'o\n', err: 'e\nchild\nfd\n', code: 0 });
    },
  ],
  [
    'cat without input ends at once',
    async (shell) => {
      expect(await shell.run('cat')).toMatchObject({ out: '', code: 0 });
    },
  ],
  [
    'read without input fails at once',
    async (shell) => {
      expect(await shell.run('read line; echo "$? [$line]"')).toMatchObject({ out: '1 []\n' });
    },
  ],
  [
    'input goes to the command it was given to',
    async (shell) => {
      expect(await shell.ok('cat', { input: 'one\ntwo\n' })).toBe('one\ntwo\n');
      expect(await shell.ok('read first; read second; echo "$second $first"', { input: 'a\nb\n' })).toBe('b a\n');
    },
  ],
  [
    'input that nobody reads is not given to the next command',
    async (shell) => {
      await shell.ok('true', { input: 'echo injected\n'.repeat(1000) });
      expect(await shell.run('cat')).toMatchObject({ out: '' });
    },
  ],
  [
    'a mebibyte of input arrives whole',
    async (shell) => {
      const input = Buffer.alloc(mebibyte, 'abcdefg');
      const expected = createHash('sha256').update(input).digest('hex');
      expect(await shell.ok('sha256sum | cut -d" " -f1', { input })).toBe(`${expected}\n`);
    },
  ],
  [
    'there is no terminal, so nothing asks for one',
    async (shell) => {
      expect(await shell.ok('for fd in 0 1 2; do [ -t $fd ] || echo no; done')).toBe('no\nno\nno\n');
      expect((await shell.run('echo x 2>/dev/null >/dev/tty')).code).not.toBe(0);
    },
  ],
  [
    'a pager prints and ends',
    async (shell) => {
      const repository = `mkdir -p ${shell.dir} && cd ${shell.dir} && git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m first`;
      await shell.ok(repository);
      expect(await shell.ok('PAGER=more git log --format=%s')).toBe('first\n');
      // More than a screen, after which a pager on a terminal waits for a key.
      const lines = Array.from({ length: 300 }, (_, index) => `${index + 1}\n`).join('');
      for (const pager of ['more', 'busybox more', 'busybox less']) {
        expect(await shell.ok(`seq 1 300 | ${pager}`), pager).toBe(lines);
      }
      // One that insists on a key is told at once that there is no terminal to read it from.
      const insists = await shell.run(`seq 1 300 | sh -c 'cat; read key </dev/tty && echo "got $key"'`);
      expect(insists).toMatchObject({ reason: 'EXITED', out: lines, err: expect.stringContaining('/dev/tty') });
      expect(insists.code).not.toBe(0);
    },
  ],
  [
    'a program that colours for terminals does not',
    async (shell) => {
      expect(await shell.ok('ls --color=auto -d /')).toBe('/\n');
    },
  ],
  [
    'a line of four mebibytes arrives whole',
    async (shell) => {
      const out = await shell.ok(`head -c ${4 * mebibyte} /dev/zero | tr '\\0' x; echo`);
      expect(out.length).toBe(4 * mebibyte + 1);
      expect(/^x+\n$/.test(out)).toBe(true);
    },
  ],
  [
    'characters of several bytes arrive whole however they are cut (daytonaio/daytona#2606)',
    async (shell) => {
      const out = await shell.ok(
        `python3 -c 'import sys\nfor i in range(60000): sys.stdout.write("\\u00e9\\u20ac\\U0001f600")'`,
      );
      expect(Buffer.from(out, 'latin1').toString()).toBe('é€😀'.repeat(60_000));
    },
  ],
  [
    'NUL and every other byte arrive as they are',
    async (shell) => {
      const out = await shell.ok("python3 -c 'import sys; sys.stdout.buffer.write(bytes(range(256)))'");
      expect(out).toBe(Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)).toString('latin1'));
    },
  ],
  [
    'output without a newline is not joined with the next command’s',
    async (shell) => {
      expect(await shell.ok('printf no-newline')).toBe('no-newline');
      expect(await shell.ok('printf next')).toBe('next');
    },
  ],
  [
    'both streams may be full at once',
    async (shell) => {
      const script = `head -c ${2 * mebibyte} /dev/zero >&2 & head -c ${2 * mebibyte} /dev/zero; wait`;
      const { out, err } = await shell.run(script);
      expect([out.length, err.length]).toEqual([2 * mebibyte, 2 * mebibyte]);
    },
  ],
  [
    'a pipe whose reader leaves ends its writer',
    async (shell) => {
      expect(await shell.run('yes | head -n 1')).toMatchObject({ out: 'y\n', code: 0 });
    },
  ],
  [
    'a hundred small commands each get their own output, in order',
    async (shell) => {
      const runs = Array.from({ length: 100 }, (_, count) => shell.run(`echo ${count}; (exit ${count})`));
      const outcomes = await Promise.all(runs);
      for (const [count, { out, code }] of outcomes.entries()) expect([out, code]).toEqual([`${count}\n`, count]);
    },
  ],
];
