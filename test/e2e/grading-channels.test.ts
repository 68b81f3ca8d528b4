import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Client, createClient, type Session, type VerificationInfo } from '../../clients/typescript/index.ts';
import { runDirectory } from '../run.ts';
import { eventually } from './eventually.ts';
import { startTestStack, type TestStack } from './stack.ts';
import { reporting, writeWeakSample } from './weak-sample.ts';

const asRoot = process.getuid?.() === 0;
/** What `writeWeakSample` hides. */
const secret = 'the hidden answer\n';
let datasets: string;
let stack: TestStack;

/** A file of the image with thousands of pages that no test uses. */
const carrier = `glob.glob('/usr/lib/gcc/*/*/lto1')[0]`;
/** A program that reads a page of the carrier for each bit of its input that is set. */
const send = `
import glob, os, sys
f = os.open(${carrier}, os.O_RDONLY)
os.posix_fadvise(f, 0, 0, os.POSIX_FADV_RANDOM)
for at, byte in enumerate(sys.stdin.buffer.read()):
    for bit in range(8):
        if byte >> bit & 1: os.pread(f, 1, (at * 8 + bit) * 4096)
`;
/** Takes all pages of the carrier out of memory. */
const forget = `
import glob, os
os.posix_fadvise(os.open(${carrier}, os.O_RDONLY), 0, 0, os.POSIX_FADV_DONTNEED)
`;
/** Prints what was sent: a page that is in memory makes no major fault. */
const hear = `
import glob, mmap, os, resource, sys
m = mmap.mmap(os.open(${carrier}, os.O_RDONLY), 0, prot=mmap.PROT_READ)
m.madvise(mmap.MADV_RANDOM)
def faults(): return resource.getrusage(resource.RUSAGE_SELF).ru_majflt
def is_cached(page):
    before = faults()
    m[page * 4096]
    return faults() == before
heard = bytes(sum(is_cached(at * 8 + bit) << bit for bit in range(8)) for at in range(${secret.length}))
sys.stdout.buffer.write(heard)
`;
const python = async (session: Session, program: string): Promise<string> => {
  const { stdout } = await session.run(['python3', '-I', '-c', program]);
  return Buffer.from(stdout).toString('latin1');
};
/** Files that every container of the image has, and that the image or the worker brings. */
const listFiles = "find /etc /run/assay /usr/bin -type f -printf '%i %p\\n' 2> /dev/null | sort";

const clients: Client[] = [];
const clientOf = async (project: string): Promise<Client> => {
  const { secret: apiKey } = await stack.client.keys.create({ project, scopes: ['AGENT'] });
  const client = createClient({ endpoint: stack.endpoint, apiKey });
  clients.push(client);
  return client;
};
const open = (id: string): Promise<Session> => stack.client.sessions.create({ sample: { dataset: 'weak', id } });

beforeAll(async () => {
  datasets = mkdtempSync(join(runDirectory(), 'datasets-'));
  const ask = '"$ASSAY_ISOLATED" run --timeout 30 -- python3 -I /workspace/answer.py < secret';
  writeWeakSample(datasets, 'heard', 'ISOLATED', `${ask}; ${listFiles}\n${reporting('true')}`);
  // They last until they are cancelled: nothing outside of a grading can tell it to end.
  const asked = { pause_sessions: true, timeout: 600 };
  writeWeakSample(
    datasets,
    'quiet',
    'ISOLATED',
    `"$ASSAY_ISOLATED" run --timeout 500 -- sleep 500; ${reporting('true')}`,
    asked,
  );
  stack = await startTestStack({
    env: { sessions: { ASSAY_DATASETS: datasets }, worker: { ASSAY_VERIFICATION_SLOTS: '2' } },
  });
});
afterAll(async () => {
  for (const client of clients) client.close();
  await stack?.stop();
  rmSync(datasets, { recursive: true, force: true });
});

// Without root a worker cannot give gradings files of their own.
describe.skipIf(!asRoot)('a session does not learn what a program was given by hidden tests', () => {
  test('from the pages of the image that are in memory, which another session would tell it', async () => {
    await using listener = await open('heard');
    await using other = await open('heard');
    await other.run(['sh', '-c', `cat > answer.py <<'end'\n${send}end\nprintf %s "$1" > said`, 'sh', secret]);
    // The attack works: what keeps a grading from being heard is not that nobody listens well.
    await eventually(async () => {
      await python(listener, forget);
      await other.run('python3 -I answer.py < said');
      expect(await python(listener, hear)).toBe(secret);
    });
    await python(listener, forget);
    const { result } = await other.verify();
    expect(result?.verdict).toBe('PASSED');
    expect(await python(listener, hear)).not.toBe(secret);
  });

  test('from a file that both have: each is an inode of its own', async () => {
    await using session = await open('heard');
    const { stdout } = await session.run(listFiles);
    const own = Buffer.from(stdout).toString().trim().split('\n');
    const { result } = (await session.verify({ force: true })) as VerificationInfo;
    const graded = Buffer.from(result?.stdout ?? [])
      .toString()
      .trim()
      .split('\n');
    expect(own.filter((line) => line.includes('/usr/bin/')).length).toBeGreaterThan(100);
    expect(graded.filter((line) => line.includes('/usr/bin/')).length).toBeGreaterThan(100);
    expect(graded.some((line) => line.endsWith('/run/assay/guest'))).toBe(true);
    expect(new Set(own).intersection(new Set(graded))).toEqual(new Set());
  });
});

const held = { paused: true, pauseReason: 'GRADING', message: expect.stringContaining('is being graded') };
const awake = { paused: false, pauseReason: undefined, message: '' };
const refused = { reason: 'SESSION_NOT_READY', message: expect.stringContaining('paused by its worker') };
const stands = (session: Session, as: object) =>
  eventually(async () => expect(await session.refresh()).toMatchObject(as));

describe('a grading of a sample that asks for it', () => {
  test('has the sessions of its project stand still, those of others not, and lets them go on when it ends', async () => {
    const elsewhere = await clientOf('other');
    await using session = await open('quiet');
    await using neighbour = await stack.client.sessions.create({});
    await using pausedBefore = await stack.client.sessions.create({});
    await using stranger = await elsewhere.sessions.create({});
    await pausedBefore.pause();
    const running = neighbour.execute('read line; echo "$line"', { input: true, timeoutMs: 30_000 });
    await running.started;
    const { id } = await stack.client.verifications.start(session.id);
    await stands(session, held);
    await stands(neighbour, held);
    await expect(neighbour.run('true')).rejects.toMatchObject(refused);
    expect((await stranger.run('true')).exitCode).toBe(0);
    expect(await pausedBefore.refresh()).toMatchObject({ paused: true, pauseReason: 'CALLER' });

    // What is made meanwhile stands still before anybody is told of it.
    await using made = await stack.client.sessions.create({});
    expect(made.info).toMatchObject({ state: 'READY', ...held });
    await expect(made.run('true')).rejects.toMatchObject(refused);
    await stands(made, held);
    await using forked = await neighbour.fork();
    expect(forked.info).toMatchObject({ state: 'READY', ...held });
    await expect(forked.run('true')).rejects.toMatchObject(refused);
    // The owner's pause and that of the grading do not end each other.
    await made.pause();
    await stands(made, { paused: true, pauseReason: 'CALLER' });
    await pausedBefore.resume();
    await stands(pausedBefore, held);

    await stack.client.verifications.cancel(id);
    for (const each of [session, neighbour, pausedBefore, forked]) await stands(each, awake);
    await running.stdin.end('heard nothing\n');
    expect(await running.result()).toMatchObject({ reason: 'EXITED', exitCode: 0 });
    expect((await forked.run('true')).exitCode).toBe(0);
    expect(await made.refresh()).toMatchObject({ paused: true, pauseReason: 'CALLER' });
    await made.resume();
    expect((await made.run('true')).exitCode).toBe(0);
  });

  test('leaves no session paused when its worker is killed in the middle of it', async () => {
    // In a project of its own: the sessions of the other have to run for a while.
    const client = await clientOf('crashed');
    await using session = await client.sessions.create({ sample: { dataset: 'weak', id: 'quiet' } });
    const { id } = await client.verifications.start(session.id);
    await stands(session, held);
    await stack.stack.halt('worker', 'SIGKILL');
    await client.verifications.cancel(id);
    stack.stack.start('worker');
    await stack.stack.ready();
    await stands(session, awake);
    expect((await session.run('echo here')).exitCode).toBe(0);
  });
});
