import { expect } from 'vitest';
import type { Behaviour, Subject } from './subject.ts';

/** Ten names that something which runs commands in a shell is likely to use itself. */
const taken = ['printf', 'read', 'cd', 'command', 'echo', 'eval', 'return', 'test', 'builtin', 'trap'];

async function expectHonest(shell: Subject, after: string): Promise<void> {
  expect(await shell.run('(exit 4)'), after).toMatchObject({ code: 4, reason: 'EXITED' });
  expect((await shell.run('/bin/echo honest')).out, after).toMatch(/(^|\n)honest\n$/);
}

/** Runs what must end the shell. */
async function expectEnd(shell: Subject, text: string, end: object): Promise<void> {
  await shell.mark();
  expect(await shell.run(text)).toMatchObject({ reason: 'SHELL_EXITED', ended: true, ...end });
  await shell.expectReopened();
}

/** What commands do to the shell itself. */
export const attack: readonly Behaviour[] = [
  ...taken.map(
    (name): Behaviour => [
      `a function named ${name} changes no result`,
      async (shell) => {
        // Some shells have reserved this name, which is a result as well.
        await shell.run(`${name}() { /bin/echo fake; (exit 9); }`);
        await expectHonest(shell, name);
      },
    ],
  ),
  [
    'aliases named command, printf and . change no result',
    async (shell) => {
      await shell.mark();
      for (const name of ['command', 'printf', 'builtin', '.', 'source']) {
        await shell.ok(`alias ${name}='echo fake'`);
        expect(await shell.ok(`alias ${name}`), name).toContain('echo fake');
        await expectHonest(shell, name);
      }
      // They are in force, where the command's own text uses them.
      expect(await shell.ok('. /dev/null')).toBe('fake /dev/null\n');
      await shell.expectMarked();
    },
  ],
  [
    'break at the top ends the shell in no case, and the command in zsh',
    async (shell) => {
      await shell.mark();
      expect((await shell.run('break; echo after')).out).toBe(shell.own({ zsh: '', others: 'after\n' }));
      await shell.expectMarked();
    },
  ],
  [
    'continue at the top ends the shell in no case, and the command in zsh',
    async (shell) => {
      await shell.mark();
      expect((await shell.run('continue; echo after')).out).toBe(shell.own({ zsh: '', others: 'after\n' }));
      await shell.expectMarked();
    },
  ],
  [
    'return at the top ends the command with its code',
    async (shell) => {
      await shell.mark();
      expect(await shell.run('echo a; return 3; echo b')).toMatchObject({ out: 'a\n', code: 3, reason: 'EXITED' });
      await shell.expectMarked();
    },
  ],
  [
    'exit 3 ends the shell with code 3 (PrimeIntellect-ai/prime#237)',
    (shell) => expectEnd(shell, 'echo last; exit 3; echo never', { code: 3, out: 'last\n', signal: undefined }),
  ],
  ['exit without a number has the last status', (shell) => expectEnd(shell, '(exit 6); exit', { code: 6 })],
  ['exit in a function ends the shell', (shell) => expectEnd(shell, 'leave() { exit 8; }; leave', { code: 8 })],
  [
    'exit in a subshell does not',
    async (shell) => {
      await shell.mark();
      expect(await shell.run('(exit 3); echo "got $?"')).toMatchObject({ out: 'got 3\n', code: 0 });
      await shell.expectMarked();
    },
  ],
  [
    'exit with a background process does not wait for it (semaphoreci/agent#88)',
    (shell) => expectEnd(shell, 'sleep 300 & exit 1', { code: 1 }),
  ],
  [
    'set -e; false ends the shell with code 1',
    (shell) => expectEnd(shell, 'set -e; false; echo never', { code: 1, out: '' }),
  ],
  [
    'exec of a program ends the shell with that program’s code',
    (shell) => expectEnd(shell, "exec sh -c 'exit 5'", { code: 5 }),
  ],
  [
    'exec of a program that is not there leaves a shell that works',
    async (shell) => {
      const outcome = await shell.run('exec /no/such/program');
      expect(outcome.code).toBeGreaterThanOrEqual(126);
      expect(await shell.ok('echo works')).toBe('works\n');
    },
  ],
  ['kill $$ ends the shell with that signal', (shell) => expectEnd(shell, 'kill $$; sleep 5', { signal: 15 })],
  ['kill -9 $$ ends the shell with that signal', (shell) => expectEnd(shell, 'kill -9 $$', { signal: 9 })],
  [
    'set -n ends the shell, with a sentence that says why',
    async (shell) => {
      await shell.mark();
      const outcome = await shell.run('set -n');
      expect(outcome).toMatchObject({ reason: 'SHELL_EXITED', ended: true, message: expect.stringContaining('shell') });
      await shell.expectReopened();
    },
  ],
  [
    'exec >file holds for the rest of its command and no longer',
    async (shell) => {
      expect(await shell.ok(`exec >${shell.dir}.out; echo hidden`)).toBe('');
      expect(await shell.ok(`cat ${shell.dir}.out`)).toBe('hidden\n');
    },
  ],
  [
    'exec 1>&- closes the output of its own command only',
    async (shell) => {
      expect((await shell.run('exec 1>&-; echo lost')).out).toBe('');
      expect(await shell.ok('echo seen')).toBe('seen\n');
    },
  ],
  [
    'exec 2>&1 merges the streams of its own command only',
    async (shell) => {
      expect(await shell.run('exec 2>&1; echo merged >&2')).toMatchObject({ out: 'merged\n', err: '' });
      expect(await shell.run('echo apart >&2')).toMatchObject({ out: '', err: 'apart\n' });
    },
  ],
  [
    'exec 9>&- and every other small descriptor may be closed or used',
    async (shell) => {
      await shell.mark();
      await shell.run('exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-');
      expect(await shell.ok(`exec 9>${shell.dir}.nine; echo nine >&9; cat ${shell.dir}.nine`)).toBe('nine\n');
      await shell.expectMarked();
    },
  ],
  [
    'exec </dev/null takes nothing from the shell’s own script',
    async (shell) => {
      await shell.mark();
      await shell.ok('exec </dev/null');
      await shell.expectMarked();
    },
  ],
  [
    'a command that reads all input does not eat the commands after it',
    async (shell) => {
      await shell.mark();
      const commands = [shell.run('cat'), shell.run('cat; read line; dd 2>/dev/null'), shell.run('echo third')];
      expect((await Promise.all(commands)).map(({ out }) => out)).toEqual(['', '', 'third\n']);
      await shell.expectMarked();
    },
  ],
  [
    'ulimit -n 3 leaves the shell no descriptor to report with: it is opened again, the results say so, the next command works',
    async (shell) => {
      await shell.mark();
      const outcome = await shell.run('ulimit -n 3; echo limited');
      expect(outcome).toMatchObject({ reason: 'SHELL_EXITED', ended: true, out: 'limited\n' });
      expect(outcome.message).toContain('stopped telling how its commands end');
      await shell.expectReopened();
      expect(await shell.ok('/bin/echo works')).toBe('works\n');
    },
  ],
  [
    'an expansion that asks for a variable is an error with its message, and the next command works',
    async (shell) => {
      const outcome = await shell.run(`: $\{never_set?must be set}; echo reached`);
      expect(outcome.code).not.toBe(0);
      expect(outcome).toMatchObject({ out: '', err: expect.stringContaining('must be set') });
      expect(await shell.ok('echo works')).toBe('works\n');
    },
  ],
  [
    'a signal that the shell ignores does not end it',
    async (shell) => {
      await shell.mark();
      expect(await shell.ok("trap '' TERM; kill $$; echo ignored")).toBe('ignored\n');
      await shell.expectMarked();
    },
  ],
];
