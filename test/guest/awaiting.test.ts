import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { encodeFrame, encodeStart, type StartRequest, type, u64 } from './frame-codec.ts';
import { type GuestContainer, startGuestContainer } from './guest-container.ts';
import { createGuestBuild, type GuestBuild, type GuestProcess, run, startGuest } from './guest-process.ts';
import { patience } from './patience.ts';
import { nextNumber, openShell } from './shell-driver.ts';

const READING = 1;
const QUIET = 2;
const terminal = { rows: 24, columns: 80 };
let build: GuestBuild;
let guest: GuestProcess;

beforeAll(async () => {
  build = await createGuestBuild();
});
afterAll(() => build.remove());
beforeEach(async () => {
  guest = await startGuest(build);
  await guest.worker.frame(type.SYNCED);
});
afterEach(() => guest.stop());

const input = (number: number, offset: number, bytes: string) =>
  encodeFrame(type.INPUT, number, Buffer.concat([u64(offset), Buffer.from(bytes)]));

interface Wait {
  readonly kind: number;
  /** What the program had written when it was told. */
  readonly output: string;
}

function waits(number: number, worker = guest.worker): Wait[] {
  const found: Wait[] = [];
  let output = '';
  for (const frame of worker.frames.filter((f) => f.number === number)) {
    if (frame.type === type.OUTPUT) output += frame.payload.subarray(8).toString();
    if (frame.type === type.AWAITING) found.push({ kind: frame.payload.readUInt8(0), output });
  }
  return found;
}

const kinds = (number: number, worker = guest.worker) => waits(number, worker).map(({ kind }) => kind);

/**
 * What was written before the first wait of this kind behind `text`. Not the first of any kind: a program that a busy
 * machine lets stand still for a second is quiet, and that is told.
 */
async function awaiting(number: number, kind: number, text = '', worker = guest.worker): Promise<string> {
  const find = () => waits(number, worker).find((wait) => wait.kind === kind && wait.output.includes(text));
  await worker.until(() => find() !== undefined);
  return find()?.output ?? '';
}

describe.each([
  ['a pipe', undefined],
  ['a terminal', terminal],
])('on %s', (_, size) => {
  const request = (argv: string[]): StartRequest => ({ argv, input: true, ...(size && { terminal: size }) });
  const start = (number: number, argv: string[]) => guest.worker.start(number, request(argv));

  test('a program that reads is told once, behind its output, and again after each answer', async () => {
    start(1, ['sh', '-c', 'printf "name? "; read name; printf "age? "; read age; echo "$name $age"']);
    expect(await awaiting(1, READING)).toBe('name? ');
    guest.worker.send(input(1, 0, 'ada\n'));
    await awaiting(1, READING, 'age? ');
    guest.worker.send(input(1, 4, '36\n'));
    await guest.worker.frame(type.EXIT, 1);
    expect(kinds(1).filter((kind) => kind === READING)).toHaveLength(2);
  });

  test('a child of the program is seen', async () => {
    start(1, ['sh', '-c', 'sh -c "cat; :"; :']);
    await awaiting(1, READING);
  });

  test('a program that does something else is quiet after a second', async () => {
    start(1, ['sleep', '60']);
    await awaiting(1, QUIET);
    expect(kinds(1)).toEqual([QUIET]);
  });

  test('input that nobody took is not waited for', async () => {
    const script = 'sleep 1.3; echo taking; read line; echo "got $line"; cat';
    // At once, for a program is waited for as long as there is no input.
    guest.worker.send(encodeStart(1, request(['sh', '-c', script])), input(1, 0, 'early\n'));
    await awaiting(1, READING, 'got early');
    expect(waits(1)[0]?.output).toContain('taking');
  });
});

test('a program that reads the terminal under its other name is seen', async () => {
  guest.worker.start(1, { argv: ['sh', '-c', 'exec </dev/null; read line </dev/tty'], input: true, terminal });
  await awaiting(1, READING);
});

test('output after a wait is a reason to tell again', async () => {
  const fifo = join(build.directory, 'tick');
  await run('mkfifo', [fifo]);
  guest.worker.start(1, { argv: ['sh', '-c', `(read go <${fifo}; echo tick) & exec cat`], input: true });
  expect(await awaiting(1, READING)).toBe('');
  await writeFile(fifo, '\n');
  expect(await awaiting(1, READING, 'tick')).toBe('tick\n');
});

test('a program that was quiet and reads after all is told to read', async () => {
  const go = join(build.directory, 'go');
  guest.worker.start(1, { argv: ['sh', '-c', `until [ -e ${go} ]; do sleep 0.05; done; exec cat`], input: true });
  await awaiting(1, QUIET);
  await writeFile(go, '');
  await awaiting(1, READING);
  expect(kinds(1)).toEqual([QUIET, READING]);
});

test('a wait is told again to whoever connects', async () => {
  guest.worker.start(1, { argv: ['cat'], input: true });
  await awaiting(1, READING);
  const from = guest.worker.frames.length;
  guest.worker.drop();
  await guest.worker.frame(type.AWAITING, 1, from);
});

test('without input, and after its end, nothing is told', async () => {
  guest.worker.start(1, { argv: ['sleep', '1.2'] });
  const ended = encodeFrame(type.INPUT_END, 2, u64(0));
  guest.worker.send(encodeStart(2, { argv: ['sh', '-c', 'cat; sleep 1.2'], input: true }), ended);
  await Promise.all([guest.worker.frame(type.EXIT, 1), guest.worker.frame(type.EXIT, 2)]);
  expect([kinds(1), kinds(2)]).toEqual([[], []]);
});

async function wakeUps(): Promise<string | undefined> {
  return /^voluntary_ctxt_switches:\s+(\d+)/m.exec(await readFile(`/proc/${guest.pid}/status`, 'utf8'))?.[1];
}

test('a guest whose programs all wait sleeps until something happens', async () => {
  guest.worker.start(1, { argv: ['cat'], input: true });
  guest.worker.start(2, { argv: ['sleep', '60'], input: true });
  await Promise.all([awaiting(1, READING), awaiting(2, QUIET)]);
  const sleeps = async () => {
    const before = await wakeUps();
    await delay(400);
    return (await wakeUps()) === before;
  };
  await expect.poll(sleeps, patience).toBe(true);
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
      await awaiting(number, kind, prompt, sandbox.worker);
      expect(kinds(number, sandbox.worker).includes(READING)).toBe(kind === READING);
    }
  });

  test.each(['bash', 'dash', 'zsh'])('a command in a %s that stays is seen', async (name) => {
    const shell = await openShell(sandbox.worker, { argv: [name] });
    const number = shell.start('printf "more? "; read line; echo "$line"', { input: true });
    expect(await awaiting(number, READING, '', sandbox.worker)).toBe('more? ');
    await shell.close();
  });
});
