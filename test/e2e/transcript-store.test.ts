import { afterAll, describe, expect, test } from 'vitest';
import { eventually } from './eventually.ts';
import { readAll } from './session-log.ts';
import { startTestStack, type TestStack } from './stack.ts';

const mebibyte = 1_048_576;
const stacks: TestStack[] = [];
afterAll(() => Promise.all(stacks.map((stack) => stack.stop())));

async function start(worker: Record<string, string>): Promise<TestStack> {
  const stack = await startTestStack({ env: { worker } });
  stacks.push(stack);
  return stack;
}

describe.concurrent('the archive', () => {
  test('forgets a transcript when its time is up, and says so', async () => {
    const { client } = await start({ ASSAY_TRANSCRIPT_KEEP_SECONDS: '2' });
    const session = await client.sessions.create({});
    await session.run('echo x', { id: 'x' });
    await session.close();
    await eventually(async () =>
      expect((await readAll(session.follow())).words).toEqual(['CREATING', 'missing', 'CLOSED']),
    );
    await expect(readAll(session.transcript())).rejects.toMatchObject({ reason: 'TRANSCRIPT_NOT_FOUND' });
    const { cursors } = await readAll(session.follow());
    expect((await readAll(session.follow({ cursor: cursors[1] ?? '' }))).words).toEqual(['CLOSED']);
  });

  test('that is too small for a transcript does not keep a session from closing, which says that its transcript is missing, and why', async () => {
    const { client } = await start({
      ASSAY_TRANSCRIPT_STORE_BYTES: String(mebibyte),
      ASSAY_TRANSCRIPT_PATIENCE_SECONDS: '0',
    });
    const session = await client.sessions.create({});
    await session.run(`head -c ${3 * mebibyte} /dev/urandom`);
    const info = await session.close();
    expect(info).toMatchObject({ state: 'CLOSED', transcript: 'MISSING' });
    expect(info.transcriptMessage).toContain(`more than ${mebibyte / 2} bytes`);
    const events = await Array.fromAsync(session.follow());
    expect(events.at(-2)).toMatchObject({ type: 'missing', message: info.transcriptMessage });
    const small = await client.sessions.create({});
    await small.run('echo fits', { id: 'fits' });
    expect(await small.close()).toMatchObject({ transcript: 'STORED' });
  });

  test('that is away gets the transcript when it is back', async () => {
    const running = await start({});
    const session = await running.client.sessions.create({});
    await session.run('echo kept', { id: 'kept' });
    // While this runs the session is not idle, and it ends after the broker: only then is it time to close.
    const busy = session.execute('cat', { input: true });
    await busy.started;
    await session.update({ idleTimeoutMs: 1_000 });
    const followed = readAll(session.follow());
    await running.stack.halt('nats', 'SIGKILL');
    await busy.stdin.end();
    const said = (words: string) => running.stack.lastLines('worker', 50).some((line) => line.includes(words));
    await eventually(() => expect(said('a transcript must wait')).toBe(true));
    running.stack.start('nats');
    await eventually(async () => expect((await session.refresh()).transcript).toBe('STORED'));
    expect(session.info).toMatchObject({ state: 'CLOSED', endReason: 'IDLE_TIMEOUT', transcriptMessage: '' });
    for (const log of [await followed, await readAll(session.follow())]) {
      expect(String(log.data('kept', 'stdout'))).toBe('kept\n');
      expect(log.words.at(-1)).toBe('CLOSED');
    }
  });

  test('has the log of a session whose container was lost with its worker', async () => {
    const { client, stack: services } = await start({});
    const session = await client.sessions.create({});
    const running = session.run('echo begun; sleep 1000', { id: 'cut' }).catch((error) => error);
    for await (const event of session.follow()) if (event.type === 'stdout') break;
    await services.halt('worker', 'SIGKILL');
    await removeContainer(`assay-${session.id}`);
    services.start('worker');
    const log = await readAll(session.follow());
    expect(log.words).toEqual(['CREATING', 'READY', 'cut started', 'cut finished', 'LOST']);
    expect(String(log.data('cut', 'stdout'))).toBe('begun\n');
    expect((await session.refresh()).transcript).toBe('STORED');
    await running;
  });
});

async function removeContainer(name: string): Promise<void> {
  const { request } = await import('node:http');
  const { inject } = await import('vitest');
  await new Promise<void>((resolve, reject) => {
    const path = `/containers/${name}?force=true`;
    request({ socketPath: inject('setup').dockerSocket, path, method: 'DELETE' }, (response) => {
      response.resume();
      response.on('end', () => resolve());
    })
      .on('error', reject)
      .end();
  });
}
