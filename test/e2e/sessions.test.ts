import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import type { Execution, Session, SessionInfo } from '../../clients/typescript/index.ts';
import { SessionState } from '../../gen/assay/v1/session_pb.js';
import { createEngineProbe } from './engine-probe.ts';
import { eventually } from './eventually.ts';
import { printed } from './printed.ts';
import { createConnection } from './raw-client.ts';
import { startTestStack, type TestStack } from './stack.ts';

const mebibyte = 1_048_576;
const engine = createEngineProbe();
const made: Session[] = [];
let stack: TestStack;
beforeAll(async () => {
  stack = await startTestStack({ env: { worker: { ASSAY_IMAGES: 'assay-test/*, no/such:image, no-such-image:1' } } });
});
afterAll(async () => {
  await Promise.all(made.map((session) => session.close()));
  await stack?.stop();
});

async function create(options: Parameters<TestStack['client']['sessions']['create']>[0] = {}): Promise<Session> {
  const session = await stack.client.sessions.create(options);
  made.push(session);
  return session;
}

/** Resolves when the session has ended. Asking for its record is no use of the session. */
async function ended(session: Session): Promise<SessionInfo> {
  await eventually(async () => expect((await session.refresh()).state).toMatch(/^(CLOSED|FAILED|LOST)$/));
  return session.info;
}

/** A command that runs until its session ends; resolves when it has printed. */
async function running(session: Session): Promise<Execution> {
  const execution = session.execute('echo up; sleep 7200');
  await printed(session, execution, 'up');
  return execution;
}

describe('a list', () => {
  const labels = { of: 'list' };
  const ids: string[] = [];
  beforeAll(async () => {
    // A session that could not be made is on record like any other, and costs no container.
    for (const number of ['1', '2', '3', '4', '5']) {
      const made = stack.client.sessions.create({ image: 'no/such:image', labels: { ...labels, number } });
      const error = await made.catch((error) => error);
      ids.unshift(error.metadata.session_id);
    }
  });

  test('has the newest first and comes in pages that new sessions do not shift', async () => {
    const { sessions } = createConnection(stack.endpoint, stack.key);
    const first = await sessions.listSessions({ labels, pageSize: 2 });
    const late = await create({ labels });
    const second = await sessions.listSessions({ labels, pageSize: 2, pageToken: first.nextPageToken });
    const last = await sessions.listSessions({ labels, pageSize: 2, pageToken: second.nextPageToken });
    const pages = [first, second, last].map((page) => page.sessions.map((session) => session.sessionId));
    expect(pages).toEqual([ids.slice(0, 2), ids.slice(2, 4), ids.slice(4)]);
    expect(last.nextPageToken).toBe('');
    const [newest] = (await sessions.listSessions({ labels, pageSize: 1 })).sessions;
    expect(newest?.sessionId).toBe(late.id);
  });

  test('is narrowed by labels and by states', async () => {
    const { sessions } = createConnection(stack.endpoint, stack.key);
    const one = await sessions.listSessions({ labels: { ...labels, number: '3' } });
    expect(one.sessions.map((session) => session.sessionId)).toEqual([ids[2]]);
    const failed = await sessions.listSessions({ labels, states: [SessionState.FAILED] });
    expect(failed.sessions.map((session) => session.sessionId)).toEqual(ids);
    expect((await sessions.listSessions({ labels, states: [SessionState.CLOSED] })).sessions).toEqual([]);
    expect((await sessions.listSessions({ labels: { ...labels, number: '6' } })).sessions).toEqual([]);
  });

  test('refuses a token of another query', async () => {
    const { sessions } = createConnection(stack.endpoint, stack.key);
    const { nextPageToken } = await sessions.listSessions({ labels, pageSize: 2 });
    for (const pageToken of [nextPageToken, 'x', nextPageToken.slice(1)]) {
      await expect(sessions.listSessions({ pageToken, pageSize: 2 })).rejects.toMatchObject({
        rawMessage: expect.stringContaining('page_token'),
      });
    }
  });
});

describe.concurrent('time', () => {
  test('to live can be changed, and when it is up the session is closed and says so', async () => {
    const session = await create({ ttlMs: 600_000 });
    const execution = await running(session);
    const before = Date.now();
    const { expireTime } = await session.update({ ttlMs: 1_500 });
    expect(Number(expireTime)).toBeGreaterThanOrEqual(before + 1_500);
    expect(Number(expireTime)).toBeLessThanOrEqual(Date.now() + 1_500);
    expect(await execution.result()).toMatchObject({ reason: 'SANDBOX_LOST' });
    expect(await ended(session)).toMatchObject({ state: 'CLOSED', endReason: 'TTL_EXPIRED' });
    expect(Number(session.info.endTime)).toBeGreaterThanOrEqual(Number(expireTime));
    await expect(session.update({ ttlMs: 60_000 })).rejects.toMatchObject({ reason: 'SESSION_ENDED' });
  });

  test('without use closes the session, but not while a command runs', async () => {
    const session = await create();
    const execution = session.execute('echo up; sleep 2.2; exit 3');
    await printed(session, execution, 'up');
    await session.update({ idleTimeoutMs: 1_000 });
    expect(await execution.result()).toMatchObject({ reason: 'EXITED', exitCode: 3 });
    expect(await ended(session)).toMatchObject({ state: 'CLOSED', endReason: 'IDLE_TIMEOUT' });
  });

  test('of a paused session runs out as well', async () => {
    const session = await create({ idleTimeoutMs: 60_000 });
    await session.pause();
    expect(await session.update({ ttlMs: 1_000, idleTimeoutMs: 0 })).toMatchObject({
      paused: true,
      idleTimeoutMs: undefined,
    });
    expect(await ended(session)).toMatchObject({ state: 'CLOSED', endReason: 'TTL_EXPIRED', paused: false });
  });

  test('goes on in a session that is paused in the engine and for nobody', async () => {
    const session = await create();
    const paused = await create();
    await paused.pause();
    const container = await engine.containerOf(session.id);
    // On a busy host the runtime gives up freezing too early.
    await eventually(() => container.pause());
    expect(String((await session.run('echo awake')).stdout)).toBe('awake\n');
    // The same sweep let the other one alone.
    const { State } = await (await engine.containerOf(paused.id)).inspect();
    expect(State.Paused).toBe(true);
  });
});

describe.concurrent('limits', () => {
  test('that nobody asked for are the defaults, told and in force', async () => {
    const session = await create();
    const limits = { cpus: 1, memoryBytes: 1024 * mebibyte, diskBytes: 2048 * mebibyte, pids: 512 };
    expect(session.info.limits).toEqual(limits);
    const { HostConfig } = await (await engine.containerOf(session.id)).inspect();
    expect(HostConfig).toMatchObject({ NanoCpus: 1e9, Memory: limits.memoryBytes, PidsLimit: limits.pids });
    const blocks = Number((await session.run('df -k / | tail -1 | tr -s " " | cut -d " " -f 2')).stdout);
    expect(blocks * 1024).toBeGreaterThan(0.9 * limits.diskBytes);
    expect(blocks * 1024).toBeLessThanOrEqual(limits.diskBytes);
  });

  test('that are given in part are completed', async () => {
    const session = await create({ limits: { cpus: 0.5, pids: 64 } });
    expect((await session.refresh()).limits).toEqual({
      cpus: 0.5,
      pids: 64,
      memoryBytes: 1024 * mebibyte,
      diskBytes: 2048 * mebibyte,
    });
  });

  test.each([
    ['limits.cpus', { cpus: 65 }, '64'],
    ['limits.memory_bytes', { memoryBytes: mebibyte }, String(16 * mebibyte)],
    ['limits.disk_bytes', { diskBytes: 2 ** 50 }, String(2 ** 40)],
    ['limits.pids', { pids: 1_000_000 }, '65536'],
  ])('of absurd %s are refused with the limit', async (field, limits, limit) => {
    await expect(create({ limits })).rejects.toMatchObject({ reason: 'LIMIT_EXCEEDED', metadata: { field, limit } });
  });
});

describe.concurrent('an image', () => {
  test('that the operator did not name is refused, whether the engine has it or not, and in whatever spelling', async () => {
    const { Id } = await engine.inspectImage(inject('setup').baseImage);
    for (const image of ['no-such-image:2', 'no-such-image', Id.replace('sha256:', ''), 'other/assay-test/x:1']) {
      const refused = create({ image });
      await expect(refused).rejects.toMatchObject({ reason: 'IMAGE_NOT_ALLOWED', code: 'FAILED_PRECONDITION' });
      await expect(refused).rejects.toThrow('ASSAY_IMAGES');
    }
  });

  test('that is the base image may be named', async () => {
    await (await create({ image: inject('setup').baseImage })).close();
  });

  test('that the engine lacks is an error that says what to type, and a FAILED record', async () => {
    const image = 'no-such-image:1';
    const error = await create({ image, labels: { of: 'missing' } }).catch((error) => error);
    expect(error).toMatchObject({ reason: 'IMAGE_NOT_FOUND', code: 'NOT_FOUND' });
    expect(error.message).toContain(`docker pull ${image}`);
    const session = await stack.client.sessions.get(error.metadata.session_id);
    expect(session.info).toMatchObject({
      state: 'FAILED',
      endReason: 'CREATE_FAILED',
      errorReason: 'IMAGE_NOT_FOUND',
      image,
      labels: { of: 'missing' },
    });
    await expect(session.run('true')).rejects.toMatchObject({ reason: 'SESSION_ENDED' });
  });

  test('without users, without a home and with hardly a file holds a session all the same', async () => {
    const builder = await create();
    const { stdout: archive } = await builder.run(`
      mkdir -p /tmp/root/bin && cd /tmp/root && cp /bin/busybox bin/ && ln -s busybox bin/sh
      for file in $(ldd /bin/busybox | grep -o '/[^ ]*'); do mkdir -p .\${file%/*}; cp -L $file .$file; done
      tar -c .`);
    const image = await engine.importImage('bare', archive, ['ENV GREETING=hello']);
    try {
      const session = await create({ image });
      const { stdout, stderr } = await session.run(`
        busybox id -u; busybox id -un; echo $HOME $USER $GREETING; pwd
        echo kept >~/file && busybox cat ~/file && echo kept >file && busybox cat /workspace/file`);
      expect(`${stderr}${stdout}`).toBe('1000\nagent\n/home/agent agent hello\n/workspace\nkept\nkept\n');
      expect((await session.refresh()).image).toBe(image);
      await session.close();
    } finally {
      await engine.removeImage(image);
    }
  });
});

describe('a request id', () => {
  test('makes one session, however often it is sent and whoever answers', async () => {
    const request = { requestId: 'once', labels: { of: 'once' } };
    const [first, second] = await Promise.all([create(request), create(request)]);
    expect(second.id).toBe(first.id);
    stack.stack.kill('sessions');
    await stack.stack.ready();
    expect((await create(request)).id).toBe(first.id);
    await first.close();
    expect((await create(request)).info).toMatchObject({ id: first.id, state: 'CLOSED' });
    await expect(create({ ...request, labels: {} })).rejects.toMatchObject({ reason: 'REQUEST_ID_REUSED' });
    const all = await Array.fromAsync(stack.client.sessions.list({ labels: { of: 'once' } }));
    expect(all.map((info) => info.id)).toEqual([first.id]);
  });
});

describe('the end', () => {
  test('by CloseSession takes the running command with it and may be asked for again', async () => {
    const session = await create();
    const execution = await running(session);
    const [closed, again] = await Promise.all([session.close(), session.close()]);
    expect(closed).toMatchObject({ state: 'CLOSED', endReason: 'CLOSED_BY_CALLER' });
    expect(again).toEqual(closed);
    expect(await session.close()).toEqual(closed);
    expect(await execution.result()).toMatchObject({ reason: 'SANDBOX_LOST', exitCode: undefined, stdoutBytes: 3 });
    await expect(session.run('true')).rejects.toMatchObject({ reason: 'SESSION_ENDED' });
    await expect(session.execution(execution.id)).rejects.toMatchObject({ reason: 'SESSION_ENDED' });
    await expect(session.pause()).rejects.toMatchObject({ reason: 'SESSION_ENDED' });
    await expect(engine.containerOf(session.id)).rejects.toThrow('no container');
  });

  test('of a container that somebody killed is told to the session and to its running command', async () => {
    const session = await create();
    const neighbour = await create();
    const execution = await running(session);
    await (await engine.containerOf(session.id)).kill();
    expect(await execution.result()).toMatchObject({ reason: 'SANDBOX_LOST', exitCode: undefined });
    expect(await ended(session)).toMatchObject({ state: 'FAILED', endReason: 'SANDBOX_LOST' });
    expect((await session.close()).state).toBe('FAILED');
    expect(String((await neighbour.run('echo fine')).stdout)).toBe('fine\n');
  });

  test.each(['close', 'expiry', 'kill'])('by %s leaves no command of many without an answer', async (how) => {
    const session = await create();
    const outcomes = new Set<string>();
    const hammers = Array.from({ length: 4 }, async () => {
      for (let word = 'EXITED'; word === 'EXITED'; outcomes.add(word)) {
        word = await session.run('echo x').then(
          (run) => run.reason,
          (error) => error.reason ?? String(error),
        );
      }
    });
    await session.run('true');
    if (how === 'close') await session.close();
    if (how === 'expiry') await session.update({ ttlMs: 1_000 });
    if (how === 'kill') await (await engine.containerOf(session.id)).kill();
    await Promise.all(hammers);
    expect(['EXITED', 'SANDBOX_LOST', 'SESSION_ENDED']).toEqual(expect.arrayContaining([...outcomes]));
  });
});
