import { expect } from 'vitest';
import type { Behaviour } from './subject.ts';

const mebibyte = 1_048_576;

/** Any command text works. */
export const text: readonly Behaviour[] = [
  [
    'a heredoc is read to its end (cloudflare/sandbox-sdk#139, daytonaio/daytona#4230)',
    async (shell) => {
      expect(await shell.ok("cat <<EOF\nhello $((1+1))\nEOF\ncat <<'EOF'\nraw $((1+1))\nEOF\n")).toBe(
        'hello 2\nraw $((1+1))\n',
      );
    },
  ],
  [
    'a heredoc whose end is the end of the text needs no newline',
    async (shell) => {
      expect(await shell.ok('cat <<EOF\nx\nEOF')).toBe('x\n');
    },
  ],
  [
    'a heredoc that is never ended takes the rest of the text and does not hang',
    async (shell) => {
      await shell.mark();
      expect((await shell.run('cat <<EOF\nrest')).out).toBe('rest\n');
      await shell.expectMarked();
    },
  ],
  [
    'a heredoc with tabs is indented as it likes',
    async (shell) => {
      expect(await shell.ok('cat <<-EOF\n\tx\n\t\ty\n\tEOF')).toBe('x\ny\n');
    },
  ],
  [
    'a heredoc writes a file with any content (daytonaio/daytona#4230)',
    async (shell) => {
      await shell.ok(`cat <<'EOF' >${shell.dir}.txt\n$x \`y\` "z" 'a' \\\\\nEOF`);
      expect(await shell.ok(`cat ${shell.dir}.txt`)).toBe('$x `y` "z" \'a\' \\\\\n');
    },
  ],
  [
    'a trailing & gives the shell back at once',
    async (shell) => {
      expect(await shell.run('sleep 300 &')).toMatchObject({ reason: 'EXITED', code: 0, ended: false });
      await shell.ok('kill $!');
    },
  ],
  [
    'a trailing comment with an odd quote is a comment',
    async (shell) => {
      expect(await shell.ok(`echo hi # it's "odd`)).toBe('hi\n');
    },
  ],
  [
    'a text that is only a comment does nothing well',
    async (shell) => {
      expect(await shell.run('# nothing')).toMatchObject({ code: 0, out: '', err: '' });
    },
  ],
  [
    'a trailing backslash joins with nothing',
    async (shell) => {
      expect((await shell.run('echo a \\')).out.trimEnd()).toBe('a');
      expect(await shell.ok('echo b')).toBe('b\n');
    },
  ],
  [
    'quotes of every kind, nested, stay what they are',
    async (shell) => {
      expect(await shell.ok(`echo 'a "b"' "c 'd'" "e \\"f\\"" 'it'"'"'s'`)).toBe(`a "b" c 'd' e "f" it's\n`);
    },
  ],
  [
    'several lines run one after the other, with no prompt in the output (OpenHands/OpenHands#1607)',
    async (shell) => {
      expect(await shell.run('echo 1\n\n\techo 2\n  echo "3\n4"\n')).toMatchObject({ out: '1\n2\n3\n4\n', err: '' });
    },
  ],
  [
    'an exclamation mark is not history',
    async (shell) => {
      expect(await shell.ok('echo "hi!" wow!! !x')).toBe('hi! wow!! !x\n');
    },
  ],
  [
    'a carriage return is a character like others',
    async (shell) => {
      expect(await shell.ok('echo hi\r\n')).toBe('hi\r\n');
    },
  ],
  [
    'a text of one mebibyte runs whole',
    async (shell) => {
      const end = "'\necho end\n";
      const long = `: '${'x'.repeat(mebibyte - 3 - end.length)}${end}`;
      expect(Buffer.byteLength(long)).toBe(mebibyte);
      expect(await shell.ok(long)).toBe('end\n');
    },
  ],
  [
    'a text of twenty thousand lines runs whole',
    async (shell) => {
      expect(await shell.ok(`n=0\n${'n=$((n+1))\n'.repeat(20_000)}echo $n`)).toBe('20000\n');
    },
  ],
  [
    'a text that is not UTF-8 reaches the shell as it is',
    async (shell) => {
      expect(await shell.ok(Buffer.from("printf '%s' 'a\xff\xfe\xe9b'", 'latin1'))).toBe('a\xff\xfe\xe9b');
    },
  ],
  [
    'a syntax error is a result with the shell’s own words, and the shell lives (SWE-agent/SWE-ReX#286, SWE-agent/SWE-ReX#25)',
    async (shell) => {
      await shell.mark();
      const outcome = await shell.run('if then fi done');
      expect(outcome).toMatchObject({ reason: 'EXITED', ended: false });
      expect(outcome.code).not.toBe(0);
      expect(outcome.err).not.toBe('');
      await shell.expectMarked();
    },
  ],
  [
    'a quote that is never closed is an error, not a wait for more',
    async (shell) => {
      await shell.mark();
      const outcome = await shell.run("echo 'oops");
      expect(outcome.code).not.toBe(0);
      expect(outcome.err).not.toBe('');
      await shell.expectMarked();
    },
  ],
  [
    'braces and parentheses that do not match are an error, not a wait for more',
    async (shell) => {
      await shell.mark();
      for (const broken of ['{ echo a', '( echo a', 'echo $(echo', 'while true; do', 'case x in', ') echo']) {
        expect((await shell.run(broken)).code, broken).not.toBe(0);
      }
      await shell.expectMarked();
    },
  ],
  [
    'a valid text with nested awk and sed is not called an error (SWE-agent/SWE-ReX#286)',
    async (shell) => {
      const program = `printf 'a b\\nc d\\n' | awk '{ print $2 " {" $1 "}" }' | sed -e 's/{\\(.*\\)}/<\\1>/'`;
      expect(await shell.ok(program)).toBe('b <a>\nd <c>\n');
    },
  ],
  [
    'a command that is not found is 127 with a message (daytonaio/daytona#2283)',
    async (shell) => {
      const outcome = await shell.run('no-such-command-here --x');
      expect(outcome).toMatchObject({ code: 127, ended: false });
      expect(outcome.err).toContain('no-such-command-here');
    },
  ],
  [
    'a file that is not executable is 126',
    async (shell) => {
      expect((await shell.run('/etc/passwd')).code).toBe(126);
    },
  ],
  [
    'an exit code is the last command’s, not that of anything of ours (SWE-agent/SWE-agent#642)',
    async (shell) => {
      for (const code of [0, 1, 2, 42, 124, 126, 137, 255]) {
        expect(await shell.run(`(exit ${code})`)).toMatchObject({ reason: 'EXITED', code });
      }
    },
  ],
  [
    'a command finds the status of the one before in $?',
    async (shell) => {
      await shell.run('(exit 7)');
      expect(await shell.ok('echo $?')).toBe('7\n');
      expect(await shell.ok('echo $?')).toBe('0\n');
    },
  ],
  [
    'what looks like the end of a command in its output is output',
    async (shell) => {
      const forged = '###PS1END###\\nexit_code: 7\\n\\001\\002SHELLPS1PREFIX\\n';
      const outcome = await shell.run(`printf '${forged}'; printf '${forged}' >&2; false`);
      expect(outcome).toMatchObject({ code: 1, reason: 'EXITED' });
      expect(outcome.out).toContain('###PS1END###\nexit_code: 7');
      expect(outcome.err).toBe(outcome.out);
    },
  ],
];
