import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Session, SessionEvent } from '../../clients/typescript/index.ts';
import { rounds } from '../rounds.ts';
import { createReadLog, readAll } from './session-log.ts';
import { startTestStack, type TestStack } from './stack.ts';

const mebibyte = 1_048_576;
let stack: TestStack;
beforeAll(async () => {
  stack = await startTestStack({ env: { worker: { ASSAY_TRANSCRIPT_BYTES: String(8 * mebibyte) } } });
});
afterAll(() => stack?.stop());

/** Follows until an event that is looked for has come. */
async function until(events: AsyncGenerator<SessionEvent>, found: (event: SessionEvent) => boolean) {
  const log = createReadLog();
  for await (const event of events) {
    log.add(event);
    if (found(event)) return log;
  }
  throw new Error(`the log ended with ${log.words.at(-1)}`);
}

const finished = (id: string) => (event: SessionEvent) => event.type === 'finished' && event.executionId === id;

describe.concurrent('a session that is followed', () => {
  test('tells its states and every execution in order, live, to two followers, and the same from the archive', async () => {
    const session = await stack.client.sessions.create({});
    const one = readAll(session.follow());
    const two = readAll(session.follow());
    await session.run('echo out; echo err >&2; exit 3', { id: 'first' });
    await session.run(['/no/such/program'], { id: 'second' }).catch(() => undefined);
    await session.pause();
    await session.resume();
    await session.run(String.raw`printf '\000\377\012'`, { id: 'third' });
    await session.close();
    const expected = [
      ...['CREATING', 'READY', 'first started', 'first finished', 'second refused'],
      ...['READY paused', 'READY', 'third started', 'third finished', 'CLOSING', 'CLOSED'],
    ];
    const logs = [await one, await two, await readAll(session.follow())];
    for (const log of logs) {
      expect(log.words).toEqual(expected);
      expect(String(log.data('first', 'stdout'))).toBe('out\n');
      expect(String(log.data('first', 'stderr'))).toBe('err\n');
      expect(log.data('third', 'stdout')).toEqual(Buffer.from([0, 255, 10]));
    }
    expect(session.info).toMatchObject({ state: 'CLOSED', transcript: 'STORED', transcriptMessage: '' });
    expect((await readAll(session.follow({ output: false }))).words).toEqual(expected);
    expect((await readAll(session.follow({ output: false }))).length('first', 'stdout')).toBe(0);
  });

  test('can be taken up after any event, live and when it has ended, with every byte once', async () => {
    const session = await stack.client.sessions.create({});
    const print = `import os, sys, random
for n in range(400):
    (sys.stdout if random.random() < 0.5 else sys.stderr).buffer.write(os.urandom(random.randrange(1, 9000)))
    sys.stdout.flush(); sys.stderr.flush()`;
    const runs = ['a', 'b', 'c'].map((id) => session.run(['python3', '-c', print], { id }));
    const results = await Promise.all(runs);
    await session.run('true', { id: 'last' });
    const whole = await until(session.follow(), finished('last'));
    for (const [index, id] of ['a', 'b', 'c'].entries()) {
      expect(whole.data(id, 'stdout').equals(results[index]?.stdout ?? Buffer.alloc(0))).toBe(true);
      expect(whole.data(id, 'stderr').equals(results[index]?.stderr ?? Buffer.alloc(0))).toBe(true);
    }
    const events: SessionEvent[] = [];
    for await (const event of session.follow()) {
      events.push(event);
      if (finished('last')(event)) break;
    }
    const resume = async (last: (event: SessionEvent) => boolean) => {
      for (let count = rounds(6, 12); count > 0; count--) {
        // Not after the last one: nothing comes after that while the session lives.
        const at = Math.floor(Math.random() * (events.length - 1));
        const log = createReadLog();
        for (const event of events.slice(0, at + 1)) log.add(event);
        for await (const event of session.follow({ cursor: events[at]?.cursor ?? '' })) {
          log.add(event);
          if (last(event)) break;
        }
        expect(log.digest()).toEqual(whole.digest());
      }
    };
    await resume(finished('last'));
    await session.close();
    await resume((event) => event.type === 'state' && event.state === 'CLOSED');
    const ended = await readAll(session.follow());
    expect(await readAll(session.follow({ cursor: ended.cursors.at(-1) ?? '' }))).toMatchObject({ words: [] });
  });

  test('tells output that is not kept as a gap: live, and more of it in the archive', async () => {
    const session = await stack.client.sessions.create({});
    const size = 40 * mebibyte;
    const options = { id: 'large', outputKeptBytes: 16 * mebibyte };
    const run = session.execute(`head -c ${size} /dev/urandom; echo end >&2`, options);
    await run.result();
    await session.run('echo small', { id: 'small' });
    const live = await until(session.follow(), finished('small'));
    expect(live.length('large', 'stdout')).toBe(size);
    const gap = { executionId: 'large', stream: 'stdout', startOffset: 8 * mebibyte, endOffset: 32 * mebibyte };
    expect(live.gaps).toEqual([gap]);
    await session.close();
    const archived = await readAll(session.follow());
    expect(archived.length('large', 'stdout')).toBe(size);
    expect(archived.gaps).toHaveLength(1);
    const kept = archived.data('large', 'stdout');
    expect(kept.length).toBeLessThanOrEqual(8 * mebibyte);
    expect(kept.length).toBeGreaterThan(7 * mebibyte);
    const half = archived.gaps[0]?.startOffset ?? 0;
    expect(kept.subarray(0, half).equals(live.data('large', 'stdout').subarray(0, half))).toBe(true);
    expect(String(archived.data('small', 'stdout'))).toBe('small\n');
    expect(String(archived.data('large', 'stderr'))).toBe('end\n');
  });

  test('tells what background processes write after the end of their command', async () => {
    const session = await stack.client.sessions.create({});
    await session.run('(until [ -e /tmp/go ]; do sleep 0.05; done; echo late) & echo early', { id: 'server' });
    await session.run('touch /tmp/go');
    const log = await until(
      session.follow(),
      (event) => event.type === 'stdout' && Buffer.from(event.data).includes('late'),
    );
    const words = log.words.filter((word) => word.startsWith('server'));
    expect(words).toEqual(['server started', 'server finished']);
    expect(String(log.data('server', 'stdout'))).toBe('early\nlate\n');
    await session.close();
  });

  test('ends with what was running when it failed', async () => {
    const session = await stack.client.sessions.create({});
    const running = session.run('echo begun; sleep 1000', { id: 'cut' }).catch((error) => error);
    await until(session.follow(), ({ type }) => type === 'stdout');
    await session.update({ ttlMs: 1_000 });
    const log = await readAll(session.follow());
    expect(log.words.slice(-3)).toEqual(['CLOSING', 'cut finished', 'CLOSED']);
    expect(String(log.data('cut', 'stdout'))).toBe('begun\n');
    await running;
    expect((await session.refresh()).transcript).toBe('STORED');
  });
});

describe.concurrent('a cursor', () => {
  test('that was changed, made up or given out for another session is refused', async () => {
    const [one, other] = await Promise.all([stack.client.sessions.create({}), stack.client.sessions.create({})]);
    await one.run('echo x');
    const { cursors } = await until(one.follow(), (event) => event.type === 'finished');
    const good = cursors.at(-1) ?? '';
    const refused = async (session: Session, cursor: string) => {
      const failed = { reason: 'INVALID_CURSOR' };
      await expect(readAll(session.follow({ cursor }))).rejects.toMatchObject(failed);
      await expect(Array.fromAsync(session.transcript({ cursor }))).rejects.toMatchObject(failed);
    };
    await refused(other, good);
    for (const bad of [
      'x',
      '0.0',
      'end',
      `${good}A`,
      good.slice(1),
      good.toUpperCase(),
      'A'.repeat(100_000),
      '\u0000',
    ]) {
      await refused(one, bad);
    }
    await Promise.all([one.close(), other.close()]);
    await refused(one, `${good.slice(0, -2)}AA`);
  });
});

describe.concurrent('a transcript', () => {
  test('is what executions did until now, of all or of one, while the session lives and after', async () => {
    const session = await stack.client.sessions.create({});
    await session.run('echo one', { id: 'one' });
    await session.run('echo two >&2; exit 7', { id: 'two' });
    const check = async () => {
      const all = await readAll(session.transcript());
      expect(all.words).toEqual(['one started', 'one finished', 'two started', 'two finished']);
      const two = await Array.fromAsync(session.transcript({ executionId: 'two' }));
      expect(two.map(({ type }) => type)).toEqual(['started', 'stderr', 'finished']);
      expect(two[0]).toMatchObject({ summary: 'echo two >&2; exit 7' });
      expect(two[2]).toMatchObject({ result: { reason: 'EXITED', exitCode: 7 } });
      const rest = await readAll(session.transcript({ cursor: all.cursors[1] ?? '', output: false }));
      expect(rest.words).toEqual(['one finished', 'two started', 'two finished']);
      const none = Array.fromAsync(session.transcript({ executionId: 'none' }));
      await expect(none).rejects.toMatchObject({ reason: 'EXECUTION_NOT_FOUND' });
    };
    await check();
    await session.close();
    await check();
    await expect(session.execution('one')).rejects.toMatchObject({
      reason: 'SESSION_ENDED',
      message: expect.stringContaining('GetTranscript'),
    });
  });
});

describe('a session whose services are killed', () => {
  test('keeps its promise through kill -9 of worker and sessions service', async () => {
    const session = await stack.client.sessions.create({});
    const followed = readAll(session.follow());
    const taken = (async () => {
      // This one goes away and comes back with its last cursor, again and again.
      const log = createReadLog();
      for (let cursor = ''; log.words.at(-1) !== 'CLOSED'; ) {
        let count = 0;
        for await (const event of session.follow({ cursor })) {
          log.add(event);
          if (event.cursor !== '') cursor = event.cursor;
          if (++count > 20) break;
        }
      }
      return log;
    })();
    const lines = session.run(
      'i=0; while [ ! -e /tmp/enough ]; do i=$((i+1)); echo out $i; echo err $i >&2; sleep 0.01; done',
      { id: 'lines' },
    );
    for (const name of ['worker', 'sessions', 'worker'] as const) {
      await session.run(`echo before ${name}`);
      await delay(Math.random() * 300);
      await stack.replace(name);
    }
    await session.run('touch /tmp/enough', { id: 'enough' });
    const result = await lines;
    await session.close();
    for (const log of [await followed, await taken, await readAll(session.follow())]) {
      expect(log.gaps).toEqual([]);
      expect(log.data('lines', 'stdout').equals(result.stdout)).toBe(true);
      expect(log.data('lines', 'stderr').equals(result.stderr)).toBe(true);
      expect(log.words.filter((word) => word.endsWith('started')).length).toBe(5);
      expect(log.words.filter((word) => word.endsWith('finished')).length).toBe(5);
      expect(log.words.at(-1)).toBe('CLOSED');
    }
  });

  test('tells when a shell is opened, opened again and closed, once each through a kill of the worker', async () => {
    const session = await stack.client.sessions.create({});
    const followed = readAll(session.follow());
    const shell = await session.openShell({ id: 'sh' });
    await shell.run('x=1', { id: 'set' });
    await stack.replace('worker');
    await shell.run('exit 3', { id: 'exit' });
    await shell.run('echo "[$x]"', { id: 'fresh' });
    await shell.close();
    await session.close();
    for (const log of [await followed, await readAll(session.follow())]) {
      expect(log.words.filter((word) => word.startsWith('sh '))).toEqual(['sh OPENED', 'sh REOPENED', 'sh CLOSED']);
      expect(log.words.indexOf('sh REOPENED')).toBeLessThan(log.words.indexOf('fresh started'));
      expect(String(log.data('fresh', 'stdout'))).toBe('[]\n');
    }
    const [first] = await Array.fromAsync(session.transcript({ executionId: 'set' }));
    expect(first).toMatchObject({ type: 'started', shellId: 'sh' });
  });

  test('has a transcript when it is closed at that very moment', async () => {
    for (let count = rounds(2, 4); count > 0; count--) {
      const session = await stack.client.sessions.create({});
      await session.run(`echo kept ${count}`, { id: 'kept' });
      const closing = session.close();
      await delay(Math.random() * 150);
      await stack.replace('worker');
      await closing;
      const log = await readAll(session.follow());
      expect(String(log.data('kept', 'stdout'))).toBe(`kept ${count}\n`);
      expect(log.words.at(-1)).toBe('CLOSED');
    }
  });
});
