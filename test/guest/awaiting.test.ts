import { readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { encodeFrame, type StartRequest, type, u64 } from './frame-codec.ts';
import { type GuestContainer, startGuestContainer } from './guest-container.ts';
import { createGuestBuild, type GuestBuild, type GuestProcess, startGuest } from './guest-process.ts';
import { nextNumber, openShell } from './shell-driver.ts';
import type { TestWorker } from './test-worker.ts';

const READING = 1;
const QUIET = 2;
const terminal = { rows: 24, columns: 80 };
let build: GuestBuild;
let guest: GuestProcess;

beforeAll(async () => {
  build = await createGuestBuild();
  await build.make(`${build.directory}/guest`);
});
afterAll(() => build.remove());
beforeEach(async () => {
  guest = await startGuest(build);
  await guest.worker.frame(type.SYNCED);
});
afterEach(() => guest.stop());

const input = (number: number, offset: number, bytes: string) =>
  encodeFrame(type.INPUT, number, Buffer.concat([u64(offset), Buffer.from(bytes)]));
const kindsIn = (worker: TestWorker, number: number) =>
  worker.frames.filter((f) => f.type === type.AWAITING && f.number === number).map((f) => f.payload.readUInt8(0));
const kinds = (number: number) => kindsIn(guest.worker, number);

/** The kind of the `count`th wait, and what was written before it was told. */
async function awaiting(
  number: number,
  count = 1,
  worker = guest.worker,
): Promise<[kind: number | undefined, output: string]> {
  await worker.until(() => kindsIn(worker, number).length >= count);
  return [kindsIn(worker, number)[count - 1], worker.spool(number, 1).bytes().toString()];
}

describe.each([
  ['a pipe', undefined],
  ['a terminal', terminal],
])('on %s', (_, size) => {
  const start = (number: number, argv: string[], more: Partial<StartRequest> = {}) =>
    guest.worker.start(number, { argv, input: true, ...(size && { terminal: size }), ...more });

  test('a program that reads is told once, behind its output, and again after each answer', async () => {
    start(1, ['sh', '-c', 'printf "name? "; read name; printf "age? "; read age; echo "$name $age"']);
    expect(await awaiting(1)).toEqual([READING, 'name? ']);
    guest.worker.send(input(1, 0, 'ada\n'));
    expect((await awaiting(1, 2))[0]).toBe(READING);
    expect(guest.worker.spool(1, 1).bytes().toString()).toContain('age? ');
    guest.worker.send(input(1, 4, '36\n'));
    await guest.worker.frame(type.EXIT, 1);
    expect(kinds(1)).toEqual([READING, READING]);
  });

  test('a child of the program is seen', async () => {
    start(1, ['sh', '-c', 'sh -c "cat; :"; :']);
    expect((await awaiting(1))[0]).toBe(READING);
  });

  test('a program that does something else is quiet after a second', async () => {
    start(1, ['sleep', '60']);
    expect((await awaiting(1))[0]).toBe(QUIET);
  });

  test('input that nobody took is not waited for', async () => {
    start(1, ['sh', '-c', 'sleep 1.3; read line; echo "got $line"; cat']);
    guest.worker.send(input(1, 0, 'early\n'));
    const [kind, output] = await awaiting(1);
    expect(kind).toBe(READING);
    expect(output).toContain('got early');
  });
});

test('a program that reads the terminal under its other name is seen', async () => {
  guest.worker.start(1, { argv: ['sh', '-c', 'exec </dev/null; read line </dev/tty'], input: true, terminal });
  expect((await awaiting(1))[0]).toBe(READING);
});

test('output after a wait is a reason to tell again', async () => {
  guest.worker.start(1, { argv: ['sh', '-c', '(sleep 0.3; echo tick) & exec cat'], input: true });
  expect(await awaiting(1)).toEqual([READING, '']);
  expect(await awaiting(1, 2)).toEqual([READING, 'tick\n']);
});

test('a wait is told again to whoever connects', async () => {
  guest.worker.start(1, { argv: ['cat'], input: true });
  await awaiting(1);
  guest.worker.drop();
  await guest.worker.connected(2);
  await awaiting(1, 2);
});

test('without input, and after its end, nothing is told', async () => {
  guest.worker.start(1, { argv: ['sleep', '1.2'] });
  guest.worker.start(2, { argv: ['sh', '-c', 'cat; sleep 1.2'], input: true });
  guest.worker.send(encodeFrame(type.INPUT_END, 2, u64(0)));
  await Promise.all([guest.worker.frame(type.EXIT, 1), guest.worker.frame(type.EXIT, 2)]);
  expect([kinds(1), kinds(2)]).toEqual([[], []]);
});

async function wakeUps(): Promise<string | undefined> {
  return /^voluntary_ctxt_switches:\s+(\d+)/m.exec(await readFile(`/proc/${guest.pid}/status`, 'utf8'))?.[1];
}

test('a guest whose programs all wait sleeps until something happens', async () => {
  guest.worker.start(1, { argv: ['cat'], input: true });
  guest.worker.start(2, { argv: ['sleep', '60'], input: true });
  await Promise.all([awaiting(1), awaiting(2)]);
  await expect
    .poll(async () => {
      const before = await wakeUps();
      await delay(400);
      return (await wakeUps()) === before;
    })
    .toBe(true);
});

describe('in a sandbox, as its user', () => {
  let sandbox: GuestContainer;
  beforeAll(async () => {
    sandbox = await startGuestContainer(build);
    await sandbox.worker.frame(type.SYNCED);
  });
  afterAll(() => sandbox.stop());

  const program = 'name = input("name? "); print("hello", name)';
  const threaded = `import threading; t = threading.Thread(target=input, args=("name? ",)); t.start(); t.join()`;
  const listening = 'process.stdout.write("name? "); process.stdin.on("data", (name) => console.log("hello " + name))';

  test.each([
    ['python’s input()', READING, ['python3', '-c', program], 'name? '],
    ['input() in another thread', READING, ['python3', '-c', threaded], 'name? '],
    ['pdb', READING, ['sh', '-c', 'echo pass >/tmp/one.py; exec python3 -m pdb /tmp/one.py'], '(Pdb) '],
    ['bash’s read', READING, ['bash', '-c', 'read -p "name? " name; echo "hello $name"'], ''],
    ['node', QUIET, ['node', '-e', listening], 'name? '],
  ])('%s is seen on a pipe and on a terminal', async (_, kind, argv, prompt) => {
    const [first, second] = [nextNumber(sandbox.worker), nextNumber(sandbox.worker)];
    sandbox.worker.start(first, { argv, input: true });
    sandbox.worker.start(second, { argv, input: true, terminal });
    for (const number of [first, second]) {
      const [seen, output] = await awaiting(number, 1, sandbox.worker);
      expect(seen).toBe(kind);
      expect(output).toContain(prompt);
    }
  });

  test.each(['bash', 'dash', 'zsh'])('a command in a %s that stays is seen', async (name) => {
    const shell = await openShell(sandbox.worker, { argv: [name] });
    const number = shell.start('printf "more? "; read line; echo "$line"', { input: true });
    expect(await awaiting(number, 1, sandbox.worker)).toEqual([READING, 'more? ']);
    await shell.close();
  });
});
