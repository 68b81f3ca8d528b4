import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Session } from '../../clients/typescript/index.ts';
import { createConnection } from './raw-client.ts';
import { startTestStack, type TestStack } from './stack.ts';

const mebibyte = 1_048_576;
let stack: TestStack;
let session: Session;
beforeAll(async () => {
  stack = await startTestStack();
  session = await stack.client.sessions.create({ env: { FROM: 'session', BOTH: 'session' } });
});
afterAll(async () => {
  await session?.close();
  await stack?.stop();
});

async function text(...run: Parameters<Session['run']>): Promise<string> {
  const { stdout, stderr } = await session.run(...run);
  return `${stderr}${stdout}`;
}

describe('a command text', () => {
  const padded = (bytes: number, filler = 'x') => {
    const head = 'echo $((6 * 7)) #';
    return head + filler.repeat((bytes - head.length) / Buffer.byteLength(filler));
  };

  test.each([1, 65_536, 65_537, 131_072, mebibyte - 1, mebibyte])('of %i bytes runs', async (bytes) => {
    expect(await text(bytes === 1 ? ':' : padded(bytes))).toBe(bytes === 1 ? '' : '42\n');
  });

  test('over 1 MiB is refused with the field and the limit, counted in bytes', async () => {
    const refusal = { reason: 'LIMIT_EXCEEDED', metadata: { field: 'command', limit: String(mebibyte) } };
    await expect(session.run(padded(mebibyte + 1))).rejects.toMatchObject(refusal);
    const wide = padded(mebibyte + 1, 'é');
    expect(wide.length).toBeLessThan(mebibyte);
    await expect(session.run(wide)).rejects.toMatchObject(refusal);
  });

  test('too large for any request is refused as well', async () => {
    await expect(session.run('x'.repeat(10 * mebibyte))).rejects.toMatchObject({
      reason: 'LIMIT_EXCEEDED',
      metadata: { limit: String(4 * mebibyte) },
      fieldViolations: [],
    });
  });

  test.each([
    ['empty', ''],
    ['only blanks', ' \n\t'],
    ['with a NUL', 'echo a\0b'],
  ])('that is %s is refused', async (_, command) => {
    await expect(session.run(command)).rejects.toMatchObject({
      reason: 'INVALID_FIELD',
      metadata: { field: 'command' },
    });
  });

  test.each([0, 200_000])('need not be UTF-8 as a script, with %i bytes before it', async (before) => {
    const comment = Buffer.concat([Buffer.from('#'), Buffer.alloc(before, 0xc3), Buffer.from('\n')]);
    const script = Buffer.concat([comment, Buffer.from("printf %s '"), Buffer.from([0xff, 0xfe, 0xc3, 0x28, 0x27])]);
    const { stdout } = await session.run(script);
    expect(stdout).toEqual(Buffer.from([0xff, 0xfe, 0xc3, 0x28]));
  });
});

describe('arguments', () => {
  const count = ['sh', '-c', 'echo $#', 'sh'];

  test('may be 4,096, and empty, and any text', async () => {
    expect(await text([...count, ...Array(4_092).fill('x')])).toBe('4092\n');
    const odd = ['', ' ', '$HOME', 'a\nb', '*', 'é😀', '-n', "'"];
    expect(await text(['printf', '[%s]', ...odd])).toBe(odd.map((argument) => `[${argument}]`).join(''));
  });

  test('may have a MiB together', async () => {
    const long = Array(8).fill('x'.repeat(130_000));
    expect(await text(['sh', '-c', 'printf %s "$@" | wc -c', 'sh', ...long])).toBe(`${8 * 130_000}\n`);
  });

  test.each([
    ['4,097 of them', () => [...count, ...Array(4_093).fill('x')], { field: 'argv', limit: '4096' }],
    ['more than a MiB together', () => [...count, ...Array(16).fill('x'.repeat(65_536))], { limit: String(mebibyte) }],
  ])('are refused when there are %s', async (_, argv, metadata) => {
    await expect(session.run(argv())).rejects.toMatchObject({ reason: 'LIMIT_EXCEEDED', metadata });
  });

  test.each([[[]], [['']], [['a\0b']]])('such as %j are no program', async (argv) => {
    await expect(session.run(argv)).rejects.toMatchObject({ reason: 'INVALID_FIELD', metadata: { field: 'argv' } });
  });
});

describe('surroundings', () => {
  test('are the session with what the request adds', async () => {
    const env = { BOTH: 'request', ODD: "a b\n$HOME 'é", EMPTY: '' };
    const command = 'printenv FROM BOTH ODD EMPTY HOME USER; pwd';
    expect(await text(command, { env, cwd: '/var/tmp' })).toBe(
      "session\nrequest\na b\n$HOME 'é\n\n/home/agent\nagent\n/var/tmp\n",
    );
    expect(await text('echo $BOTH; pwd')).toBe('session\n/workspace\n');
  });

  test.each<[string, object, object]>([
    ['257 variables', { env: Object.fromEntries([...Array(257).keys()].map((n) => [`V${n}`, ''])) }, { limit: '256' }],
    ['variables of more than 64 KiB', { env: { A: 'x'.repeat(65_536) } }, { field: 'env', limit: '65536' }],
    ['a name that is none', { env: { 'A=B': 'x' } }, { field: 'env' }],
    ['a directory that is not absolute', { cwd: 'tmp' }, { field: 'working_directory' }],
    ['a timeout of two days', { timeoutMs: 2 * 86_400_000 }, { field: 'timeout', limit: '86400000' }],
    ['an id with a slash', { id: 'a/b' }, { field: 'execution_id' }],
    ['more kept output than there may be', { outputKeptBytes: 2 ** 40 }, { field: 'output_kept_bytes' }],
  ])('with %s are refused', async (_, options, metadata) => {
    await expect(session.run('true', options)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', metadata });
  });
});

describe('what is known of an execution', () => {
  test('is its state, its beginning, its bytes and its result', async () => {
    const execution = session.execute('cat; echo err >&2; exit 5', { input: true, id: 'known' });
    await execution.stdin.write(Buffer.from('four'));
    expect(await session.execution('known')).toMatchObject({
      state: 'RUNNING',
      inputOpen: true,
      inputBytes: 4,
      result: undefined,
    });
    await execution.stdin.end();
    const result = await execution.result();
    expect(await session.execution('known')).toMatchObject({
      id: 'known',
      sessionId: session.id,
      state: 'FINISHED',
      summary: 'cat; echo err >&2; exit 5',
      stdoutBytes: 4,
      stderrBytes: 4,
      inputOpen: false,
      result,
    });
    expect(result).toMatchObject({ reason: 'EXITED', exitCode: 5 });
    await expect(session.execution('unknown')).rejects.toMatchObject({ reason: 'EXECUTION_NOT_FOUND' });
  });

  test('of one that could not be started is NOT_STARTED', async () => {
    await session.run(['/no/such'], { id: 'not-started' }).catch(() => undefined);
    expect(await session.execution('not-started')).toMatchObject({ state: 'NOT_STARTED', result: undefined });
  });

  const long = 'é😀'.repeat(5_000);
  const summarized = async (id: string) => Buffer.byteLength((await session.execution(id)).summary);

  test('has no more than the first 4 KiB of a text', async () => {
    await session.run(`: ${long}`, { id: 'long-command' });
    expect(await summarized('long-command')).toBeLessThanOrEqual(4_096);
    expect(await summarized('long-command')).toBeGreaterThan(4_000);
  });

  // Of arguments it has the first 4,096 characters, which may be three times as many bytes.
  test('has no more than the first 4 KiB of arguments', async () => {
    await session.run(['true', long], { id: 'long-argv' });
    expect(await summarized('long-argv')).toBeLessThanOrEqual(4_096);
  });

  test('comes in pages, oldest first', async () => {
    const { executions, sessions } = createConnection(stack.endpoint, stack.key);
    const own = await stack.client.sessions.create({});
    const ids = ['c', 'a', 'e', 'b', 'd'];
    for (const id of ids) await own.run('true', { id });
    const pages: string[][] = [];
    let pageToken = '';
    do {
      const page = await executions.listExecutions({ sessionId: own.id, pageSize: 2, pageToken });
      pages.push(page.executions.map((execution) => execution.executionId));
      pageToken = page.nextPageToken;
    } while (pageToken !== '');
    expect(pages).toEqual([['c', 'a'], ['e', 'b'], ['d']]);
    expect((await Array.fromAsync(own.executions())).map(({ id }) => id)).toEqual(ids);
    const { nextPageToken } = await executions.listExecutions({ sessionId: own.id, pageSize: 2 });
    const foreign = executions.listExecutions({ sessionId: session.id, pageToken: nextPageToken });
    await expect(foreign).rejects.toMatchObject({ rawMessage: expect.stringContaining('page_token') });
    await sessions.closeSession({ sessionId: own.id });
  });
});
