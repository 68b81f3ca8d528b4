import { describe, expect, test } from 'vitest';
import { useGuestContainer } from './guest-container.ts';
import { openShell, type Ran, type ShellDriver } from './shell-driver.ts';

const guest = useGuestContainer();

type Name = 'bash' | 'dash' | 'zsh' | 'ash';

/** What a row expects of the last text; a function says a shell's own different truth. */
type Expected = Partial<Ran> | ((name: Name) => Partial<Ran>);

interface Row {
  readonly title: string;
  readonly texts: readonly (string | Buffer)[];
  readonly expected: Expected;
}

const lives = (stdout: string): Partial<Ran> => ({ code: 0, flags: 0, stdout });
const row = (title: string, texts: readonly (string | Buffer)[], expected: Expected): Row => ({
  title,
  texts,
  expected,
});
const standard = (name: Name) => name === 'dash' || name === 'ash';
const rows: Row[] = [
  row(
    'variables, the directory, functions and aliases stay',
    ['x=5; cd /usr; f() { echo f$x; }; alias g="echo g"', 'pwd; f; g'],
    lives('/usr\nf5\ng\n'),
  ),
  row('options stay', ['set -o noglob', 'echo /*'], lives('/*\n')),
  row('exported variables reach programs', ['export a=b', 'env | grep ^a='], lives('a=b\n')),
  row('the last status is carried over', ['(exit 7)', 'echo $?'], lives('7\n')),
  row('a status of 0 is carried over too', ['true', 'echo $?'], lives('0\n')),
  row('a text without a final newline runs', ['echo one; echo two'], lives('one\ntwo\n')),
  row('an empty text succeeds', [''], lives('')),
  row('a comment at the end hides nothing', ['echo one # two'], lives('one\n')),
  row('a here-document works', ['cat <<X\na\tb\nX'], lives('a\tb\n')),
  row('a here-document that is never ended works', ['cat <<X\nopen'], (name) =>
    name === 'zsh' ? {} : lives('open\n'),
  ),
  row('several lines run in order', ['echo 1\nfor i in 2 3; do\n  echo $i\ndone'], lives('1\n2\n3\n')),
  row('a backslash at the end continues nothing', ['echo a \\'], lives('a\n')),
  row('quotes of every kind survive', [`echo 'a"b' "c'd" e\\ f`], lives(`a"b c'd e f\n`)),
  row(
    'invalid UTF-8 passes',
    [Buffer.from("printf '\\377' | od -An -tx1; printf '%s' 'é\xe9' >/dev/null", 'latin1')],
    lives(' ff\n'),
  ),
  row('a syntax error is told and the shell lives', ['x=1', 'if', 'echo $x'], lives('1\n')),
  row('a syntax error has a message and a status', ['echo a; )'], {
    flags: 0,
    stderr: expect.stringMatching(/command.*(syntax|parse) error|syntax error/i) as unknown as string,
  }),
  row('a quote that is never closed is told', ['echo "a'], {
    flags: 0,
    stderr: expect.stringMatching(/unterminated|unexpected|unmatched/i) as unknown as string,
  }),
  row('break at the top is survived', ['break', 'echo on'], lives('on\n')),
  row('continue at the top is survived', ['continue', 'echo on'], lives('on\n')),
  row('return at the top ends the text with its status', ['echo a; return 3; echo b'], {
    code: 3,
    flags: 0,
    stdout: 'a\n',
  }),
  row('set -x traces what follows', ['set -x', 'echo a'], {
    code: 0,
    flags: 0,
    stdout: 'a\n',
    stderr: expect.stringMatching(/echo a\n$/) as unknown as string,
  }),
  row('set -u is survived', ['set -u', 'echo a'], lives('a\n')),
  row('set -C is survived', ['set -C', 'echo a'], lives('a\n')),
  row('set -v is survived', ['set -v', 'echo a'], lives('a\n')),
  row('set -f, -a and -m are survived', ['set -f; set -a; set -m', 'echo a'], lives('a\n')),
  row('exec >file counts for its own text', ['exec >/tmp/f; echo a', 'cat /tmp/f'], lives('a\n')),
  row('exec 1>&- counts for its own text', ['exec 1>&-', 'echo a'], lives('a\n')),
  row('exec 2>&- counts for its own text', ['exec 2>&-', 'echo a >&2; echo b'], {
    stdout: 'b\n',
    stderr: 'a\n',
    flags: 0,
  }),
  row('exec 0<&- counts for its own text', ['exec 0<&-', 'cat; echo a'], lives('a\n')),
  row('exec 9>&- is survived', ['exec 9>&-', 'echo a'], lives('a\n')),
  row('a descriptor that is opened stays', ['exec 3>/tmp/three', 'echo a >&3', 'cat /tmp/three'], lives('a\n')),
  row('umask 777 is survived', ['umask 777', 'echo a'], lives('a\n')),
  row('IFS may hold digits', ['IFS=0123456789', '(exit 12)'], { code: 12, flags: 0 }),
  row('PATH may be unset', ['unset PATH', 'echo a'], lives('a\n')),
  row(
    'the working directory may be removed',
    ['mkdir -p /tmp/gone && cd /tmp/gone && rmdir /tmp/gone', 'echo a'],
    lives('a\n'),
  ),
  row('signals may be ignored', ["trap '' TERM HUP INT", 'echo a'], lives('a\n')),
  row('a trap on ERR is survived', ['trap "echo e" ERR', 'echo a'], (name) =>
    name === 'dash' ? lives('a\n') : lives('a\n'),
  ),
  row('a trap on DEBUG is survived', ['trap ": d" DEBUG', 'echo a'], lives('a\n')),
  row('a trap on RETURN is survived', ['trap ": r" RETURN', 'echo a'], lives('a\n')),
  row(
    'functions named like builtins are survived',
    [
      'printf() { :; }; read() { :; }; cd() { :; }; test() { :; }; echo() { :; }; true() { false; }',
      'unset -f echo; echo a',
    ],
    lives('a\n'),
  ),
  row('a function named command is survived', ['command() { echo mine; }', 'echo a'], lives('a\n')),
  row('a function named builtin is survived', ['builtin() { echo mine >&2; }', 'echo a'], lives('a\n')),
  row('functions named . and builtin are survived', ['.() { :; }; builtin() { :; }', 'echo a'], lives('a\n')),
  row(
    'functions named trap, exec, set and eval are survived',
    ['eval "trap() { :; }; exec() { :; }; set() { :; }"', 'echo a'],
    lives('a\n'),
  ),
  row(
    'aliases named like builtins are survived',
    ['alias .=false command=false builtin=false source=false trap=false', 'echo a'],
    lives('a\n'),
  ),
  row('a reserved word taken away is survived', ['disable -r repeat 2>/dev/null', 'echo a'], lives('a\n')),
  row('an alias for a reserved word is survived', ["alias repeat='echo x;'", 'echo a'], lives('a\n')),
  row('aliases for the words of a loop are survived', ['alias do="echo x;" done="echo y"', 'false'], (name) => ({
    code: 1,
    flags: 0,
    ...(name === 'zsh' ? { stdout: '' } : {}),
  })),
  row('a shell without short loops works on', ['setopt noshortloops 2>/dev/null', 'echo a'], lives('a\n')),
  row('break outside of a loop leaves none of ours', ['break; echo a'], (name) =>
    name === 'zsh' ? { stdout: '', flags: 0 } : { flags: 0 },
  ),
  row('a program sees no descriptor of ours', ['ls /proc/self/fd'], lives('0\n1\n2\n3\n')),
  row('input that is not given is empty', ['cat; readlink /proc/self/fd/0'], lives('/dev/null\n')),
  row('streams can be opened by name', ['echo a >/dev/stdout; echo b >/dev/stderr'], {
    code: 0,
    stdout: 'a\n',
    stderr: 'b\n',
  }),
  row('NUL bytes pass in output', ["printf 'a\\000b' | od -An -c"], lives('   a  \\0   b\n')),
  row('a program that is missing is told', ['nosuch'], { code: 127, flags: 0 }),
  row('kill of a background job is told as one', ['sleep 60 & kill $!; wait $!'], { code: 143, flags: 0 }),
  row('jobs stay', ['sleep 60 & echo', 'kill $! && echo a'], lives('a\n')),
  row('background processes outlive their text', ['sleep 60 &', 'kill -0 $! && echo a; kill $!'], lives('a\n')),
  row('shift beyond the arguments is survived', ['shift 5', 'echo a'], lives('a\n')),
  row('an assignment to a readonly is survived', ['readonly r=1', 'r=2', 'echo a'], lives('a\n')),
  row('a division by zero is survived', ['echo $((1/0))', 'echo a'], lives('a\n')),
  row('a file that cannot be read is survived', ['. /nonexistent', 'echo a'], lives('a\n')),
  row('a directory that is missing is survived', ['cd /nonexistent', 'echo a'], lives('a\n')),
  row('text of a mebibyte runs', [`: ${'x'.repeat((1 << 20) - 20)}\necho a`], lives('a\n')),
  row('a statement after many lines runs', [`${'\n'.repeat(100_000)}echo a`], lives('a\n')),
];

const endings: Row[] = [
  row('exit ends it with its code', ['exit 3'], { code: 3, flags: 1 }),
  row('exit runs the EXIT trap, in dash and ash without its streams', ['trap "echo bye" EXIT; exit 4'], (name) => ({
    code: 4,
    flags: 1,
    stdout: standard(name) ? '' : 'bye\n',
  })),
  row('exec ends it with the code of the program', ['exec sh -c "echo a; exit 5"'], {
    code: 5,
    flags: 1,
    stdout: 'a\n',
  }),
  row('exec of nothing that exists ends it', ['exec /nosuch'], { flags: 1 }),
  row('kill ends it', ['kill $$; sleep 1'], { signal: 15, flags: 1 }),
  row('kill -9 ends it', ['kill -9 $$; sleep 1'], { signal: 9, flags: 1 }),
  row('set -e ends it at the first failure', ['set -e; false; echo no'], { code: 1, flags: 1, stdout: '' }),
  row('a script that was closed is noticed', ['exec 10<&- 11<&- 12<&- 255<&-; true'], (name) =>
    name === 'ash' ? { flags: 3 } : {},
  ),
  row('set -n is noticed', ['set -n'], { flags: 3 }),
];

const programs: { name: Name; argv: string[] }[] = [
  { name: 'bash', argv: ['bash'] },
  { name: 'dash', argv: ['dash'] },
  { name: 'zsh', argv: ['zsh'] },
  { name: 'ash', argv: ['busybox', 'ash'] },
];

describe.each(programs)('in $name', ({ name, argv }) => {
  let shell: ShellDriver;
  const open = () => openShell(guest().worker, { argv, env: ['PATH=/usr/bin:/bin', 'first=yes'] });
  const expected = ({ expected: wanted }: Row) => (typeof wanted === 'function' ? wanted(name) : wanted);

  test.each(rows)('$title', async (each) => {
    shell = await open();
    let ran: Ran | undefined;
    for (const text of each.texts) ran = await shell.run(text);
    expect(ran).toMatchObject(expected(each));
    expect((await shell.run('unset -f echo 2>/dev/null; echo alive')).stdout.endsWith('alive\n')).toBe(true);
    await shell.close();
  });

  test.each(endings)('$title, and it is opened again as it was at first', async (each) => {
    shell = await open();
    await shell.run('first=no; cd /usr');
    let ran: Ran | undefined;
    for (const text of each.texts) ran = await shell.run(text);
    expect(ran).toMatchObject(expected(each));
    expect(shell.opened()).toBe(2);
    expect(await shell.run('echo $first; pwd')).toMatchObject(lives('yes\n/tmp\n'));
    await shell.close();
  });

  test('no descriptors left is noticed with the next command at the latest', async () => {
    shell = await open();
    const ran = await shell.run('ulimit -n 3; true');
    const flags = ran.flags === 0 ? (await shell.run('true')).flags : ran.flags;
    expect(flags).toBe(3);
    expect(await shell.run('echo a')).toMatchObject(lives('a\n'));
    await shell.close();
  });
});
