import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import Docker from 'dockerode';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import type { Session } from '../../clients/typescript/index.ts';
import { findProcesses } from '../../scripts/setup/process-table.mjs';
import { layerDirectory } from '../../services/sandbox-worker/docker/layer-directory.ts';
import { boundLoopFiles } from '../sandbox-worker/docker/scratch-host.ts';
import { createEngineProbe } from './engine-probe.ts';
import { createConnection } from './raw-client.ts';
import { startTestStack, type TestStack } from './stack.ts';

const mebibyte = 1_048_576;
const made: Session[] = [];
const engine = createEngineProbe();
let docker: Docker;
let stack: TestStack;

beforeAll(async () => {
  docker = new Docker({ socketPath: inject('setup').dockerSocket });
  stack = await startTestStack({ env: { worker: { ASSAY_IMAGES: 'assay-test/*' } } });
});
afterAll(async () => {
  await Promise.all(made.map((session) => session.close()));
  await stack?.stop();
});

async function kept(session: Promise<Session>): Promise<Session> {
  made.push(await session);
  return session;
}
const create = (options: Parameters<TestStack['client']['sessions']['create']>[0] = {}) =>
  kept(stack.client.sessions.create(options));
const fork = (source: Session, options: Parameters<Session['fork']>[0] = {}) => kept(source.fork(options));

/** What a command writes; it must succeed. */
async function text(session: Session, command: string): Promise<string> {
  const { stdout, stderr, exitCode } = await session.run(command);
  if (exitCode !== 0) throw new Error(`${command}: ${exitCode} ${stderr}`);
  return String(stdout);
}

/** Every file that the session's user can see below its places: type, mode, owner, links, size, blocks, time, content. */
const listing = `
import hashlib, os, stat, sys
out = []
for top in (b"/workspace", b"/tmp", os.path.expanduser(b"~"), b"/var/tmp"):
    for path, dirs, files in os.walk(top):
        dirs.sort()
        for name in sorted(files + dirs) + [b""]:
            full = os.path.join(path, name)
            s = os.lstat(full)
            row = [repr(full), oct(s.st_mode), s.st_uid, s.st_gid, s.st_nlink, int(s.st_mtime * 1000)]
            if stat.S_ISLNK(s.st_mode): row.append(repr(os.readlink(full)))
            if stat.S_ISREG(s.st_mode) and os.access(full, os.R_OK): row += [s.st_size, s.st_blocks < s.st_size // 512, hashlib.sha256(open(full, "rb").read()).hexdigest()]
            out.append(" ".join(map(str, row)))
print("\\n".join(out))`;

const list = (session: Session) => text(session, `python3 -c '${listing.replaceAll("'", "'\\''")}'`);

describe('a fork', () => {
  test('has every file as it is in the source, however odd, and from then on each has its own', async () => {
    const source = await create();
    await text(
      source,
      `set -e; cd /workspace; mkdir -p deep/a/b; echo one >deep/a/b/one; chmod 4755 deep/a/b/one; chmod 1777 deep/a
       ln deep/a/b/one hard; ln -s /etc/passwd link; ln -s nowhere/at/all dangling; mkfifo pipe
       python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("sock")'
       truncate -s 300M sparse; echo end >>sparse; touch -d 2001-02-03 old
       printf x >"$(printf 'new\\nline \\377\\t*')"; mkdir -m 0700 private; echo p >private/p; chmod 000 deep/a/b
       mkdir -p many; i=0; while [ $i -lt 300 ]; do echo $i >many/$i; i=$((i+1)); done; rm many/1?`,
    );
    const before = await list(source);
    const copy = await fork(source);
    expect(copy.info).toMatchObject({
      state: 'READY',
      forkedFrom: source.id,
      warm: false,
      workerId: source.info.workerId,
    });
    expect(await list(copy)).toBe(before);
    await text(copy, 'cd /workspace; echo changed >old; rm hard; chmod 755 deep/a/b; echo more >>deep/a/b/one');
    expect(await list(source)).toBe(before);
    await text(source, 'rm -rf /workspace/many');
    expect(await text(copy, 'ls /workspace/many | wc -l')).toBe('290\n');
  });

  test('keeps what was deleted from the image deleted, and directories that were made anew empty of what they held', async () => {
    const builder = await create();
    const { stdout: archive } = await builder.run(`
      mkdir -p /tmp/root/bin /tmp/root/workspace/gone/sub && cd /tmp/root && cp /bin/busybox bin/ && ln -s busybox bin/sh
      for file in $(ldd /bin/busybox | grep -o '/[^ ]*'); do mkdir -p .\${file%/*}; cp -L $file .$file; done
      for n in 1 2 3; do echo $n >workspace/gone/$n; echo $n >workspace/gone/sub/$n; echo $n >workspace/kept$n; done
      tar -c --owner=1000 --group=1000 .`);
    const image = await engine.importImage('fork', archive);
    try {
      const source = await create({ image });
      await text(
        source,
        'PATH=/bin; cd /workspace && busybox rm kept1 && busybox rm -r gone && busybox mkdir gone && echo new >gone/new && busybox mv kept2 kept4',
      );
      const first = await fork(source);
      const second = await fork(first);
      for (const session of [source, first, second]) {
        expect(
          await text(session, 'cd /workspace; busybox find . -type f | busybox sort | busybox xargs busybox grep .'),
        ).toBe('./gone/new:new\n./kept3:3\n./kept4:2\n');
      }
      expect(second.info).toMatchObject({ forkedFrom: first.id, image });
      await Promise.all([source, first, second].map((session) => session.close()));
    } finally {
      await engine.removeImage(image);
    }
  });

  test('of 100 MB has all of it, and leaves the command that runs in the source only a pause', async () => {
    const source = await create();
    await text(source, 'head -c 100000000 /dev/urandom >/workspace/big');
    const ticking = source.execute('i=0; while [ ! -e /tmp/stop ]; do i=$((i+1)); sleep 0.05; done; echo $i', {
      timeoutMs: 120_000,
    });
    const copy = await fork(source);
    const sum = 'sha256sum </workspace/big';
    expect(await text(copy, sum)).toBe(await text(source, sum));
    expect(await text(copy, 'ps -e -o args= 2>/dev/null || cat /proc/[0-9]*/cmdline')).not.toContain('/tmp/stop');
    await source.run('touch /tmp/stop');
    expect(await ticking.result()).toMatchObject({ reason: 'EXITED', exitCode: 0 });
    expect(await Array.fromAsync(copy.executions())).toHaveLength(2);
  });

  test('of a paused session leaves it paused, and runs itself', async () => {
    const source = await create();
    await text(source, 'echo paused >/tmp/state');
    await source.pause();
    const copy = await fork(source);
    expect(copy.info.paused).toBe(false);
    expect(await text(copy, 'cat /tmp/state')).toBe('paused\n');
    expect((await source.refresh()).paused).toBe(true);
    await source.resume();
    expect(await text(source, 'cat /tmp/state')).toBe('paused\n');
  });

  test('can be made several times at once while commands run', async () => {
    const source = await create();
    await text(source, 'echo same >/tmp/same');
    const [copies, codes] = await Promise.all([
      Promise.all([fork(source), fork(source), fork(source)]),
      Promise.all(Array.from({ length: 20 }, async () => (await source.run('cat /tmp/same')).exitCode)),
    ]);
    expect(codes).toEqual(Array(20).fill(0));
    expect(await Promise.all(copies.map((copy) => text(copy, 'cat /tmp/same')))).toEqual(Array(3).fill('same\n'));
  });
});

describe('what a fork is', () => {
  test('is inherited from the source unless it is given', async () => {
    const source = await create({
      env: { A: '1', B: '2' },
      labels: { of: 'source' },
      limits: { pids: 100 },
      ttlMs: 1_800_000,
      idleTimeoutMs: 600_000,
    });
    const same = await fork(source);
    const { env, labels, limits, idleTimeoutMs } = source.info;
    expect(same.info).toMatchObject({ env, labels, limits, idleTimeoutMs });
    expect(Number(same.info.expireTime) - Number(same.info.createTime)).toBe(1_800_000);
    const other = await fork(source, {
      env: { B: '3', C: '4' },
      labels: { of: 'fork' },
      limits: { memoryBytes: 256 * mebibyte },
      ttlMs: 60_000,
      idleTimeoutMs: 0,
    });
    expect(other.info).toMatchObject({
      env: { A: '1', B: '3', C: '4' },
      labels: { of: 'fork' },
      limits: { ...limits, memoryBytes: 256 * mebibyte },
      idleTimeoutMs: undefined,
    });
    expect(Number(other.info.expireTime) - Number(other.info.createTime)).toBe(60_000);
    expect(await text(other, 'echo $A $B $C')).toBe('1 3 4\n');
  });

  test('is made once by one request id, also after the source is gone', async () => {
    const source = await create();
    const requestId = 'fork-once';
    const [first, second] = await Promise.all([fork(source, { requestId }), fork(source, { requestId })]);
    expect(second?.id).toBe(first?.id);
    await source.close();
    stack.stack.kill('sessions');
    await stack.stack.ready();
    expect((await source.fork({ requestId })).id).toBe(first?.id);
    await expect(source.fork({ requestId, env: { other: '1' } })).rejects.toMatchObject({
      reason: 'REQUEST_ID_REUSED',
    });
  });

  test('must have room for the files of the source', async () => {
    const source = await create();
    await text(source, 'head -c 40000000 /dev/urandom >/workspace/big');
    const error = await source.fork({ limits: { diskBytes: 24 * mebibyte } }).catch((error) => error);
    expect(error).toMatchObject({ reason: 'LIMIT_EXCEEDED' });
    expect(error.message).toContain('limits.disk_bytes');
    expect(await text(source, 'echo fine')).toBe('fine\n');
    const left = await docker.listContainers({ all: true, filters: { name: [`assay-${error.metadata.session_id}`] } });
    expect(left).toEqual([]);
  });

  test('needs a source that lives', async () => {
    const source = await create();
    await source.close();
    await expect(source.fork()).rejects.toMatchObject({ reason: 'SESSION_ENDED' });
    const nobody = 'ses_01h455vb4pex5vsknk084sn02q';
    await expect(
      createConnection(stack.endpoint, stack.key).sessions.forkSession({ sessionId: nobody }),
    ).rejects.toMatchObject({
      rawMessage: expect.stringContaining(nobody),
    });
  });
});

describe('a fork whose files are still being copied', () => {
  /** Begins a fork of a source with many files, and stops the program that copies them in the middle. */
  async function stoppedCopy(options: Parameters<Session['fork']>[0] = {}) {
    const source = await create();
    await text(source, 'mkdir /workspace/many; cd /workspace/many; seq 30000 | xargs touch');
    const layer = layerDirectory(await docker.getContainer(`assay-${source.id}`).inspect());
    const copying = () =>
      findProcesses((name, command) => name === 'cp' && command.includes(`${layer}/diff/.`)).map(({ pid }) => pid);
    const forking = source.fork(options).catch((error) => error);
    await expect.poll(copying, { interval: 2 }).toHaveLength(1);
    for (const pid of copying()) process.kill(pid, 'SIGSTOP');
    const sessions = await Array.fromAsync(stack.client.sessions.list());
    const made = await stack.client.sessions.get(sessions.find((info) => info.forkedFrom === source.id)?.id ?? '');
    return { source, made, forking, copying };
  }

  /** What the worker has of a session: its directory, the container, the disk. */
  async function partsOf(id: string): Promise<string[]> {
    const containers = await docker.listContainers({ all: true, filters: { name: [`assay-${id}`] } });
    return [
      ...readdirSync(join(stack.stack.dataDir, 'worker', 's')).filter((name) => name === id),
      ...containers.map(({ Id }) => Id),
      ...boundLoopFiles().filter((file) => file.includes(id)),
    ];
  }

  test('is closed at once, and nothing of it is left', async () => {
    const { source, made, forking, copying } = await stoppedCopy();
    await made.close();
    expect((await made.refresh()).state).toBe('CLOSED');
    expect(copying()).toEqual([]);
    await expect.poll(() => partsOf(made.id)).toEqual([]);
    expect(await forking).toBeInstanceOf(Error);
    expect(await text(source, 'ls /workspace/many | wc -l')).toBe('30000\n');
  });

  test('does not hold up the close of forks that wait for their turn', async () => {
    const source = await create();
    await text(source, 'mkdir /workspace/many; cd /workspace/many; seq 30000 | xargs touch');
    const layerOf = (id: string) => docker.getContainer(`assay-${id}`).inspect().then(layerDirectory);
    const copies = (end: string) => findProcesses((name, command) => name === 'cp' && command.includes(end));
    const copied = `${await layerOf(source.id)}/diff/.`;
    const forking = Array.from({ length: 4 }, () => source.fork().catch((error) => error));
    await expect.poll(() => copies(copied), { interval: 2 }).toHaveLength(1);
    for (const { pid } of copies(copied)) process.kill(pid, 'SIGSTOP');
    const sessions = await Array.fromAsync(stack.client.sessions.list());
    const ids = sessions.filter(({ forkedFrom }) => forkedFrom === source.id).map(({ id }) => id);
    const layers = await Promise.all(ids.map((id) => layerOf(id).catch(() => undefined)));
    const behind = ids.filter((_id, index) => copies(`${layers[index]}/diff/`).length === 0);
    // Of one project two forks are made at a time.
    expect(behind.length).toBeGreaterThan(1);
    for (const id of behind) {
      const session = await stack.client.sessions.get(id);
      await session.close();
      expect((await session.refresh()).state).toBe('CLOSED');
      await expect.poll(() => partsOf(id)).toEqual([]);
    }
    expect(copies(copied)).toHaveLength(1);
    await source.close();
    expect(await Promise.all(forking)).toEqual(forking.map(() => expect.any(Error)));
  });

  test('does not hold up the close of its source, and fails because of it', async () => {
    const { source, made, forking, copying } = await stoppedCopy();
    await source.close();
    expect(copying()).toEqual([]);
    expect(await forking).toMatchObject({ reason: 'SESSION_ENDED', message: expect.stringContaining(source.id) });
    for (const { id } of [source, made]) await expect.poll(() => partsOf(id)).toEqual([]);
  });

  test('ends when its time to live is up', async () => {
    const { made, copying } = await stoppedCopy({ ttlMs: 20_000 });
    await expect.poll(copying).toEqual([]);
    await expect.poll(() => partsOf(made.id)).toEqual([]);
    await expect.poll(() => made.refresh()).toMatchObject({ state: 'CLOSED', endReason: 'TTL_EXPIRED' });
  });
});

describe('kill -9 of the worker', () => {
  test('while it copies finishes the fork when it is back, and the source goes on', async () => {
    const source = await create();
    await text(source, 'head -c 60000000 /dev/urandom >/workspace/big');
    const sum = await text(source, 'sha256sum </workspace/big');
    // The source is frozen while its files are copied.
    const label = [`dev.assay.installation=${stack.stack.installation}`];
    const pauses = (await docker.getEvents({ filters: { event: ['pause'], label } })) as Readable;
    const forking = fork(source);
    await once(pauses, 'data');
    await stack.stack.halt('worker', 'SIGKILL');
    pauses.destroy();
    stack.stack.start('worker');
    await stack.stack.ready();
    const copy = await forking;
    expect(await text(copy, 'sha256sum </workspace/big')).toBe(sum);
    expect(await text(source, 'sha256sum </workspace/big')).toBe(sum);
    expect((await source.refresh()).paused).toBe(false);
    await Promise.all([source.close(), copy.close()]);
    // The directory of a session goes when its end is recorded.
    const slots = () => readdirSync(join(stack.stack.dataDir, 'worker', 's'));
    await expect.poll(slots).not.toContain(source.id);
    await expect.poll(slots).not.toContain(copy.id);
  });
});
