import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Execution, ExecutionEvent, Session, Turn } from '../../clients/typescript/index.ts';
import { startTestStack, type TestStack } from './stack.ts';

const terminal = { rows: 24, columns: 80 };
let stack: TestStack;
let session: Session;
beforeAll(async () => {
  stack = await startTestStack();
  session = await stack.client.sessions.create();
});
afterAll(async () => {
  await session?.close();
  await stack?.stop();
});

/** The program that is debugged: it adds up prices, one item at a time. */
const basket = `def total(items):
    result = 0
    for name, price in items:
        result += price
    return result


print("total", total([("tea", 3), ("milk", 2)]))
`;

/** What a program wrote until it read, or ended. That it is quiet is a guess, which a machine that stalls makes a wrong one. */
async function turn(execution: Execution): Promise<Turn> {
  const written: Buffer[] = [];
  for (;;) {
    const next = await execution.awaitingInput();
    written.push(next.stdout);
    if (next.awaiting !== 'QUIET') return { ...next, stdout: Buffer.concat(written) };
  }
}

/** Says a line and returns what the program wrote until it read again, or ended. */
async function say(execution: Execution, line: string): Promise<string> {
  await execution.stdin.write(`${line}\n`);
  return String((await turn(execution)).stdout);
}

test.each([
  ['a pipe', { input: true }],
  ['a terminal', { terminal }],
])('a debugger is driven on %s: break, continue, print', async (_, options) => {
  await session.run('cat >/workspace/basket.py', { input: basket });
  const pdb = session.execute(['python3', '-m', 'pdb', 'basket.py'], { cwd: '/workspace', ...options });
  const first = await turn(pdb);
  expect(first.awaiting).toBe('READING');
  expect(String(first.stdout)).toMatch(/basket\.py\(1\)<module>\(\)[\s\S]*\(Pdb\) $/);
  expect(await say(pdb, 'break basket.py:4')).toContain('Breakpoint 1 at /workspace/basket.py:4');
  expect(await say(pdb, 'continue')).toContain('/workspace/basket.py(4)total()');
  expect(await say(pdb, 'print(name, price, result)')).toMatch(/^(print.*\r\n)?tea 3 0\r?\n/m);
  expect(await say(pdb, 'continue')).toContain('basket.py(4)total()');
  expect(await say(pdb, 'print(name, price, result)')).toMatch(/milk 2 3\r?\n/);
  expect(await say(pdb, 'clear 1')).toContain('Deleted breakpoint 1');
  expect(await say(pdb, 'continue')).toContain('total 5');
  await pdb.stdin.write('quit\n');
  expect(await turn(pdb)).toMatchObject({ awaiting: undefined, result: { reason: 'EXITED', exitCode: 0 } });
});

test('an installer that asks is answered only when it asks', async () => {
  const script = `
    printf 'Continue? [y/n] '; read answer; [ "$answer" = y ] || exit 1
    sleep 0.5; printf 'Directory: '; read directory; echo "installed in $directory"`;
  const installer = session.execute(script, { input: true });
  expect(String((await turn(installer)).stdout)).toBe('Continue? [y/n] ');
  expect(await say(installer, 'y')).toBe('Directory: ');
  await installer.stdin.write('/opt\n');
  expect(await turn(installer)).toMatchObject({
    stdout: Buffer.from('installed in /opt\n'),
    awaiting: undefined,
    result: { exitCode: 0 },
  });
});

test('a debugger is driven in a shell, which stays', async () => {
  const shell = await session.openShell({ cwd: '/workspace' });
  await shell.run('cat >sum.py; greeting=kept', { input: 'first = 1\nprint("sum", first + 1)\n' });
  const pdb = shell.execute('python3 -m pdb sum.py', { input: true });
  expect(await turn(pdb)).toMatchObject({ awaiting: 'READING' });
  await say(pdb, 'break 2');
  await say(pdb, 'continue');
  expect(await say(pdb, 'print(first)')).toMatch(/^1\n/);
  await pdb.stdin.write('quit\n');
  expect((await turn(pdb)).result).toMatchObject({ reason: 'EXITED', exitCode: 0 });
  expect(String((await shell.run('echo $greeting')).stdout)).toBe('kept\n');
  await shell.close();
});

test('a program that only watches its input is quiet, not reading', async () => {
  const node = 'process.stdin.on("data", (line) => { console.log("hello " + line); process.exit(3) })';
  const execution = session.execute(['node', '-e', node], { input: true });
  expect((await execution.awaitingInput()).awaiting).toBe('QUIET');
  await execution.stdin.write('ada');
  expect((await turn(execution)).result).toMatchObject({ exitCode: 3 });
});

/** The next event of this type; the iteration goes on after it. */
async function next<Type extends ExecutionEvent['type']>(
  events: AsyncIterator<ExecutionEvent>,
  type: Type,
): Promise<Extract<ExecutionEvent, { type: Type }>> {
  for (;;) {
    const { done, value } = await events.next();
    if (done === true) throw new Error(`it ended before ${type}`);
    if (value.type === type) return value as Extract<ExecutionEvent, { type: Type }>;
  }
}

async function nextReading(events: AsyncIterator<ExecutionEvent>) {
  for (;;) {
    const event = await next(events, 'awaitingInput');
    if (event.kind === 'READING') return event;
  }
}

test('events tell of it once; whoever comes late hears that it waits', async () => {
  const execution = session.execute('echo question; cat', { input: true });
  const events = execution[Symbol.asyncIterator]();
  expect(await nextReading(events)).toEqual({ type: 'awaitingInput', kind: 'READING', inputBytes: 0 });
  await execution.stdin.write('answer');
  expect(await nextReading(events)).toEqual({ type: 'awaitingInput', kind: 'READING', inputBytes: 6 });
  const late = session.attach(execution.id);
  const heard = await turn(late);
  expect([heard.awaiting, String(heard.stdout)]).toEqual(['READING', 'question\nanswer']);
  await execution.stdin.end();
  expect((await next(events, 'finished')).result).toMatchObject({ exitCode: 0 });
  expect(await late.result()).toMatchObject({ exitCode: 0 });
});

test('a wait goes on through a killed worker and is still told', async () => {
  const execution = session.execute('cat', { input: true });
  await turn(execution);
  stack.stack.kill('worker');
  await execution.stdin.write('more');
  expect(await turn(execution)).toMatchObject({ stdout: Buffer.from('more'), awaiting: 'READING' });
  await execution.stdin.end();
  expect(await execution.result()).toMatchObject({ exitCode: 0 });
});

test('a program without open input is never said to wait', async () => {
  const kinds: string[] = [];
  for await (const event of session.execute('sleep 1.3')) kinds.push(event.type);
  expect(kinds).not.toContain('awaitingInput');
});
