import { spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startTestStack, type TestStack } from '../e2e/stack.ts';
import { timedOutBeyond } from '../e2e/timed-out.ts';

const root = new URL('../../cli/', import.meta.url);
let stack: TestStack;
beforeAll(async () => {
  stack = await startTestStack();
});
afterAll(() => stack?.stop());

/** Starts a script of cli/ against the stack, in a directory that is not the checkout. */
function start(script: string, args: readonly string[], key = stack.key) {
  return spawn(process.execPath, [fileURLToPath(new URL(script, root)), ...args], {
    cwd: tmpdir(),
    env: { ...process.env, ASSAY_ENDPOINT: stack.endpoint, ASSAY_API_KEY: key },
  });
}

async function run(script: string, args: readonly string[], stdin: Uint8Array | string = '', key = stack.key) {
  const child = start(script, args, key);
  const closed = once(child, 'close');
  child.stdin.on('error', () => undefined);
  child.stdin.end(stdin);
  const [stdout, stderr] = await Promise.all([Array.fromAsync(child.stdout), Array.fromAsync(child.stderr)]);
  const [code] = await closed;
  return { code, stdout: Buffer.concat(stdout), stderr: Buffer.concat(stderr).toString() };
}

const assay = (...args: string[]) => run('assay.mjs', args);

test.concurrent('run passes streams and exit code on, and leaves no session', async () => {
  const ended = await assay('run', '--label', 'from=run', '-c', String.raw`printf 'a\0\377'; echo warned >&2; exit 9`);
  expect(ended).toEqual({ code: 9, stdout: Buffer.from([97, 0, 255]), stderr: 'warned\n' });
  const left = await assay('sessions', 'ls', '--label', 'from=run', '-o', 'json');
  expect(JSON.parse(left.stdout.toString())).toEqual([]);
});

test.concurrent('stdin reaches the command byte for byte and comes back', async () => {
  const input = randomBytes(3_000_000);
  const ended = await run('assay.mjs', ['run', '--', 'cat', '-'], input);
  expect(ended.code).toBe(0);
  expect(createHash('sha256').update(ended.stdout).digest('hex')).toBe(
    createHash('sha256').update(input).digest('hex'),
  );
});

test.concurrent('one session serves every way a command can end', async () => {
  const session = (await assay('sessions', 'create', '--ttl', '5m')).stdout.toString().trim();
  expect(session).toMatch(/^ses_/);
  const exec = (...args: string[]) => assay('exec', session, ...args);
  expect(await exec('-c', 'kill -TERM $$')).toMatchObject({ code: 143 });
  expect(await exec('-c', 'exit 137')).toMatchObject({ code: 137, stderr: '' });
  const inside = await stack.client.sessions.get(session);
  const late = await timedOutBeyond(
    (ms) => exec('-t', `${ms}ms`, '-c', 'echo kept; : >/tmp/kept; sleep 100'),
    async () => (await inside.run('rm /tmp/kept')).exitCode === 0,
  );
  expect(late).toMatchObject({ code: 124, stdout: Buffer.from('kept\n') });
  expect(late.stderr).toContain('by its timeout');
  expect(await exec('--', '/no/such', 'program')).toMatchObject({ code: 127, stdout: Buffer.alloc(0) });
  expect(await exec('-e', 'A=b c', '-w', '/tmp', '-c', 'echo "$A $PWD"')).toMatchObject({
    code: 0,
    stdout: Buffer.from('b c /tmp\n'),
  });
  const closed = await assay('sessions', 'close', session);
  expect(closed.stdout.toString()).toBe(`${session} CLOSED\n`);
  expect(await exec('-c', 'true')).toMatchObject({ code: 125 });
});

test.concurrent('a shell is opened, used, listed and closed', async () => {
  const session = (await assay('sessions', 'create', '--ttl', '5m')).stdout.toString().trim();
  const opened = await assay('shells', 'open', session, '--id', 'mine', '-e', 'A=b', '-w', '/tmp', '--', 'dash');
  expect(opened).toMatchObject({ code: 0, stdout: Buffer.from('mine\n'), stderr: '' });
  const exec = (...args: string[]) => assay('exec', session, '--shell', 'mine', ...args);
  expect(await exec('-c', 'cd /usr; C=d')).toMatchObject({ code: 0 });
  expect(await exec('-c', 'echo $A $C $PWD; (exit 3)')).toMatchObject({ code: 3, stdout: Buffer.from('b d /usr\n') });
  expect(await exec('--', 'echo', 'two')).toMatchObject({ code: 2, stderr: expect.stringContaining('one text') });
  const ended = await exec('-c', 'exit 4');
  expect(ended).toMatchObject({ code: 4, stderr: expect.stringContaining('ended its shell') });
  const listed = JSON.parse((await assay('shells', 'ls', session, '-o', 'json')).stdout.toString());
  expect(listed).toMatchObject([{ id: 'mine', state: 'OPEN', program: ['dash'], openCount: 2 }]);
  expect((await assay('shells', 'close', session, 'mine')).stdout.toString()).toBe('mine CLOSED\n');
  expect((await assay('shells', 'ls', session, '-o', 'json')).stdout.toString()).toBe('[]\n');
  await assay('sessions', 'close', session);
});

test.concurrent('logs -f of an execution reads on until its background processes are gone', async () => {
  const session = (await assay('sessions', 'create', '--ttl', '5m')).stdout.toString().trim();
  const waiting = '(until [ -e /tmp/go ]; do sleep 0.05; done; echo late) & echo early';
  const started = await assay('exec', session, '-c', waiting);
  expect(started.stdout.toString()).toBe('early\n');
  const events = await assay('logs', session, '-o', 'json');
  const [first] = events.stdout.toString().split('\n', 1);
  const { execution } = JSON.parse(first ?? '');
  const following = start('assay.mjs', ['logs', '-f', session, execution]);
  const ended = once(following, 'close');
  let followed = '';
  following.stdout.on('data', (data: Buffer) => {
    followed += data;
  });
  await once(following.stdout, 'data');
  await (await stack.client.sessions.get(session)).run('touch /tmp/go');
  await ended;
  expect(followed).toBe('early\nlate\n');
  expect((await assay('logs', session)).stdout.toString()).toBe('early\nlate\n');
  await assay('sessions', 'close', session);
});

test.concurrent('a key that is made works, and does not once it is revoked', async () => {
  const made = JSON.parse((await assay('keys', 'create', '--scope', 'agent', '-o', 'json')).stdout.toString());
  expect(made.secret).toMatch(/^assay_/);
  expect(made.scopes).toEqual(['AGENT']);
  expect(await run('assay.mjs', ['sessions', 'ls'], '', made.secret)).toMatchObject({ code: 0 });
  const revoked = await assay('keys', 'revoke', made.id);
  expect(revoked).toMatchObject({ code: 0, stdout: Buffer.from(`${made.id} revoked\n`) });
  const refused = await run('assay.mjs', ['sessions', 'ls', '-o', 'json'], '', made.secret);
  expect(refused.code).toBe(125);
  expect(JSON.parse(refused.stderr)).toMatchObject({ error: { reason: 'UNAUTHENTICATED' } });
  const listed = JSON.parse((await assay('keys', 'ls', '-o', 'json')).stdout.toString());
  expect(listed.find((key: { id: string }) => key.id === made.id).revokeTime).toBeTruthy();
});

test.concurrent('info and the demo succeed', async () => {
  expect((await assay('info')).stdout.toString()).toContain(stack.endpoint);
  const demo = await run('demo.ts', []);
  expect(demo).toMatchObject({ code: 0, stderr: '' });
  expect(demo.stdout.toString()).toMatch(
    /verdict \S*FAILED\S*, 3 of 5 [\s\S]*✗ the last number is part [\s\S]*verdict \S*PASSED\S*, 5 of 5 [\s\S]*session CLOSED/,
  );
});
