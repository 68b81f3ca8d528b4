import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Session } from '../../clients/typescript/index.ts';
import { startTestStack, type TestStack } from './stack.ts';

let stack: TestStack;
let session: Session;
beforeAll(async () => {
  stack = await startTestStack();
  session = await stack.client.sessions.create({});
});
afterAll(async () => {
  await session?.close();
  await stack?.stop();
});

describe('output', () => {
  test('of 64 MiB of random bytes on each stream arrives separate and byte for byte', async () => {
    // A keystream is random enough to show every mistake, and both sides can hash it.
    const stream = (key: string) =>
      `head -c 67108864 /dev/zero | openssl enc -aes-128-ctr -K ${key.repeat(32)} -iv ${'0'.repeat(32)} | tee /tmp/${key} >&`;
    const execution = session.execute(`${stream('1')}1 & ${stream('2')}2 & wait; sync`, { outputKeptBytes: 2 ** 28 });
    const hashes = { stdout: createHash('sha256'), stderr: createHash('sha256') };
    for await (const event of execution) {
      if (event.type === 'stdout' || event.type === 'stderr') hashes[event.type].update(event.data);
      if (event.type === 'gap') throw new Error(`a gap from ${event.startOffset} to ${event.endOffset}`);
    }
    const result = await execution.result();
    expect([result.stdoutBytes, result.stderrBytes]).toEqual([67_108_864, 67_108_864]);
    const expected = String((await session.run('sha256sum /tmp/1 /tmp/2')).stdout).split('\n');
    expect(expected[0]).toContain(hashes.stdout.digest('hex'));
    expect(expected[1]).toContain(hashes.stderr.digest('hex'));
  });

  test('keeps NUL bytes, invalid UTF-8 and a missing final newline', async () => {
    const { stdout, stderr } = await session.run(`printf 'a\\000\\377\\303b'; printf '\\376\\000' >&2`);
    expect(stdout.equals(Buffer.from([0x61, 0, 0xff, 0xc3, 0x62]))).toBe(true);
    expect(stderr.equals(Buffer.from([0xfe, 0]))).toBe(true);
  });

  test('written through /dev/stderr and /dev/stdout arrives', async () => {
    const { stdout, stderr } = await session.run('echo one >/dev/stderr; echo two >/dev/stdout');
    expect([String(stdout), String(stderr)]).toEqual(['two\n', 'one\n']);
  });

  test('that outgrows what is kept tells a late reader of the gap', async () => {
    const kept = 4 * 1_048_576;
    const execution = session.execute('head -c 20000000 /dev/zero | tr "\\0" x', { outputKeptBytes: kept });
    await execution.result();
    let bytes = 0;
    const gaps: [number, number][] = [];
    for await (const event of session.attach(execution.id)) {
      if (event.type === 'stdout') bytes += event.data.length;
      if (event.type === 'gap') gaps.push([event.startOffset, event.endOffset]);
    }
    expect(gaps).toEqual([[kept / 2, 20_000_000 - kept / 2]]);
    expect(bytes).toBe(kept);
  });

  test('is read again from any offset, without a byte missing or twice', async () => {
    const execution = session.execute('seq 1 200000');
    await execution.result();
    const whole = Buffer.concat(await chunks(session.attach(execution.id)));
    for (const offset of [1, 65_536, 700_001, whole.length - 1, whole.length]) {
      const rest = Buffer.concat(await chunks(session.attach(execution.id, { stdoutOffset: offset })));
      expect(rest.equals(whole.subarray(offset))).toBe(true);
    }
  });

  test('past the end of a finished execution is an error that names the field', async () => {
    const execution = session.execute('echo hi');
    await execution.result();
    // The result may come while the streams are open: what a command left in the background could still print.
    await Array.fromAsync(session.attach(execution.id, { followBackground: true }));
    await expect(session.attach(execution.id, { stdoutOffset: 4 }).result()).rejects.toMatchObject({
      reason: 'INVALID_FIELD',
      metadata: { field: 'stdout_offset', limit: '3' },
    });
  });
});

async function chunks(events: AsyncIterable<{ type: string; data?: Uint8Array }>): Promise<Uint8Array[]> {
  const found: Uint8Array[] = [];
  for await (const event of events) if (event.type === 'stdout') found.push(event.data as Uint8Array);
  return found;
}

describe('input', () => {
  test('of 32 MiB reaches the program byte for byte', async () => {
    const piece = createHash('sha512').update('seed').digest();
    const block = Buffer.alloc(1_048_576, piece);
    const hash = createHash('sha256');
    async function* input() {
      for (let count = 0; count < 32; count++) {
        hash.update(block);
        yield block;
      }
    }
    const { stdout } = await session.run('sha256sum', { input: input() });
    expect(String(stdout)).toBe(`${hash.digest('hex')}  -\n`);
  });

  test('is empty unless it was asked for', async () => {
    expect(String((await session.run('cat; echo end')).stdout)).toBe('end\n');
  });

  test('that the program does not read does not hold back its end', async () => {
    const run = await session.run('exit 4', { input: Buffer.alloc(8 * 1_048_576) });
    expect(run.exitCode).toBe(4);
  });

  test('at an offset that would leave a hole is refused with the right offset', async () => {
    const { createConnection } = await import('./raw-client.ts');
    const raw = createConnection(stack.endpoint, stack.key);
    const execution = session.execute('cat', { input: true });
    await execution.started;
    const ids = { sessionId: session.id, executionId: execution.id };
    await expect(raw.executions.writeInput({ ...ids, offset: 5n, data: Buffer.from('x') })).rejects.toMatchObject({
      rawMessage: expect.stringContaining('write at offset 0'),
    });
    await raw.executions.writeInput({ ...ids, offset: 0n, data: Buffer.from('hello') });
    const again = await raw.executions.writeInput({ ...ids, offset: 3n, data: Buffer.from('lo w'), end: true });
    expect(again.nextOffset).toBe(7n);
    await raw.executions.closeInput(ids);
    expect(Buffer.concat(await chunks(execution)).toString()).toBe('hello w');
    await expect(raw.executions.writeInput({ ...ids, offset: 7n, data: Buffer.from('x') })).rejects.toMatchObject({
      rawMessage: expect.stringContaining('no input can be written'),
    });
  });
});
