import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { startTestStack, type TestStack } from './stack.ts';
import { ensureTmux, openTmux, type Tmux } from './tmux.ts';

const assay = fileURLToPath(new URL('../../cli/assay.mjs', import.meta.url));
/** The prompt of the base image's bash, waiting. */
const prompt = /agent@sandbox:\S+\$ *\n*$/;
let stack: TestStack;
let tmux: Tmux;

beforeAll(async () => {
  await ensureTmux();
  stack = await startTestStack();
});
afterAll(() => stack?.stop());
beforeEach(async () => {
  tmux = await openTmux({ ASSAY_ENDPOINT: stack.endpoint, ASSAY_API_KEY: stack.key });
  await tmux.type(`alias assay="${process.execPath} ${assay}"; clear`);
  await tmux.shows(/^outside> *\n*$/);
});
afterEach(() => tmux?.close());

async function openShell(line = 'assay shell'): Promise<void> {
  await tmux.type(line);
  await tmux.shows(prompt);
}

/** Types what ends the program, and waits until the shell outside tells its exit code. */
async function leave(line: string, code: number): Promise<void> {
  await tmux.type(line);
  await tmux.shows(/outside> *\n*$/);
  await tmux.type('echo "code $?"');
  await tmux.shows(new RegExp(`^code ${code}$`, 'm'));
}

async function liveSessions(): Promise<string[]> {
  return (await Array.fromAsync(stack.client.sessions.list())).filter((one) => !one.endTime).map((one) => one.id);
}

test('typing, a new size, Ctrl-C, and the exit code of a shell in a session of its own', async () => {
  await openShell();
  await tmux.type('clear; tty; stty size; echo $((6 * 7)) "$TERM"');
  await tmux.shows(/\/dev\/pts\/0\n24 80\n42 (screen|tmux)\S*\n/);
  await tmux.resize(101, 31);
  await tmux.type('clear; until [ "$(stty size)" = "31 101" ]; do sleep 0.05; done; echo resized');
  await tmux.shows(/^resized$/m);
  await tmux.type('clear; sleep 1000');
  await expect.poll(async () => (await inside('pgrep -x sleep')).exitCode).toBe(0);
  await tmux.press('C-c');
  await tmux.type('echo "status $?"');
  await tmux.shows(/^status 130$/m);
  await leave('exit 7', 7);
  await tmux.type('stty -a | grep -o -e " icanon" -e " echo "');
  await tmux.shows(/^ icanon\n echo/m);
  expect(await liveSessions()).toEqual([]);
});

/** Runs something beside the shell, in the one session that lives. */
async function inside(command: string, input = '') {
  const [id] = await liveSessions();
  return (await stack.client.sessions.get(id ?? '')).run(command, { input });
}

test('a full-screen program draws, is typed into, and leaves the screen as it was', async () => {
  await openShell();
  await tmux.type('echo before; busybox vi /tmp/note');
  await tmux.shows(/^~\n(~\n)+- \/tmp\/note/m);
  await tmux.press('i');
  await tmux.press('-l', 'written in vi');
  await tmux.shows(/^written in vi\n~/m);
  await tmux.press('Escape');
  await tmux.cursorIn(12);
  await tmux.press('-l', ':wq');
  await tmux.press('Enter');
  await tmux.shows(prompt);
  await tmux.shows(/^before$/m);
  await tmux.type('clear; cat /tmp/note');
  await tmux.shows(/^written in vi$/m);
  await leave('exit', 0);
});

const showSize = `import curses
def main(screen):
    key = ""
    while key != ord("q"):
        screen.erase()
        screen.addstr(0, 0, "size %dx%d" % screen.getmaxyx())
        screen.refresh()
        key = screen.getch()
curses.wrapper(main)
`;

test('a curses program sees keys and sizes', async () => {
  await openShell();
  await inside('cat >/tmp/size.py', showSize);
  await tmux.type('python3 /tmp/size.py');
  await tmux.shows(/^size 24x80\n/);
  await tmux.resize(90, 20);
  await tmux.shows(/^size 20x90\n/);
  await tmux.press('q');
  await tmux.shows(prompt);
  await leave('exit', 0);
});

test('a shell goes on through the restart of both services', async () => {
  await openShell();
  for (const [count, name] of (['sessions', 'worker'] as const).entries()) {
    const before = stack.stack.restarts(name);
    stack.stack.kill(name);
    await expect.poll(() => stack.stack.restarts(name), { timeout: 120_000 }).toBeGreaterThan(before);
    await tmux.type(`clear; echo $((${count} + 40))`);
    await tmux.shows(new RegExp(`^${count + 40}$`, 'm'));
  }
  await leave('exit 3', 3);
});

test('a named session stays, and a program after -- runs on a terminal', async () => {
  const session = await stack.client.sessions.create();
  await tmux.type(
    `assay shell ${session.id} -- python3 -c 'import os; print(os.ttyname(0)); exit(int(input("code? ")))'`,
  );
  await tmux.shows(/\/dev\/pts\/0\ncode\?/);
  await leave('12', 12);
  await tmux.type(`clear; assay exec --tty ${session.id} -c 'tty; exit 4'; echo "code $?"`);
  await tmux.shows(/^\/dev\/pts\/\d+\ncode 4$/m);
  expect((await session.refresh()).state).toBe('READY');
  await session.close();
});

test('a shell that is told to end gives the terminal back and closes its session', async () => {
  await openShell();
  const [id] = await liveSessions();
  expect(id).toBeDefined();
  process.kill(await processOf('assay.mjs shell'), 'SIGTERM');
  await tmux.shows(/outside> *\n*$/);
  await tmux.type('echo "code $?"; stty -a | grep -o " icanon"');
  await tmux.shows(/^code 143\n icanon/m);
  expect(await liveSessions()).toEqual([]);
});

async function processOf(command: string): Promise<number> {
  const { execFileSync } = await import('node:child_process');
  return Number(
    execFileSync('pgrep', ['-f', `^${process.execPath}.*${command}`])
      .toString()
      .trim()
      .split('\n')
      .at(-1),
  );
}

test('without a terminal it says so, and makes no session', async () => {
  await tmux.type('clear; assay shell </dev/null; echo "code $?"');
  const screen = await tmux.shows(/^code 2$/m);
  expect(screen).toContain('no terminal');
  expect(await liveSessions()).toEqual([]);
});
