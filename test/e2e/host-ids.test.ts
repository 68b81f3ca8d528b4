import { readFileSync } from 'node:fs';
import Docker from 'dockerode';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import type { Session } from '../../clients/typescript/index.ts';
import { printed } from './printed.ts';
import { startTestStack, type TestStack } from './stack.ts';

let stack: TestStack;
let greedy: Session;
let other: Session;
beforeAll(async () => {
  stack = await startTestStack();
  [greedy, other] = await Promise.all([stack.client.sessions.create({}), stack.client.sessions.create({})]);
});
afterAll(async () => {
  await Promise.all([greedy?.close(), other?.close()]);
  await stack?.stop();
});

async function text(session: Session, command: string | string[]): Promise<string> {
  const { stdout, stderr } = await session.run(command);
  return `${stdout}${stderr}`;
}

async function hostIds(session: Session): Promise<string[]> {
  const docker = new Docker({ socketPath: inject('setup').dockerSocket, host: undefined });
  const { State } = await docker.getContainer(`assay-${session.id}`).inspect();
  const status = readFileSync(`/proc/${State.Pid}/status`, 'utf8');
  return ['Uid', 'Gid'].map((name) => new RegExp(`^${name}:\\t(.*)$`, 'm').exec(status)?.[1] ?? '');
}

test('sessions have user ids of their own on the host, and the usual ones inside', async () => {
  const [one, two] = await Promise.all([hostIds(greedy), hostIds(other)]);
  for (const [uid, gid] of [one, two]) {
    expect(uid).toMatch(/^(19|20)\d{8}\t/);
    expect(gid).toBe(uid);
    expect(new Set(uid?.split('\t')).size).toBe(1);
  }
  expect(one).not.toEqual(two);
  expect(
    await text(other, 'id; touch mine; stat -c "%U %u %G %g" mine . ~ /etc/passwd; tty; echo x > /dev/stderr'),
  ).toBe(
    'uid=1000(agent) gid=1000(agent) groups=1000(agent)\nagent 1000 agent 1000\nagent 1000 agent 1000\nagent 1000 agent 1000\nroot 0 root 0\nnot a tty\nx\n',
  );
});

test('a session makes no namespace and mounts nothing', async () => {
  const refused = await text(other, 'unshare -U true; unshare -m true; mount -t tmpfs none /tmp; nsenter -U -t 1 true');
  expect(refused.match(/not permitted|must be superuser|denied/g)).toHaveLength(4);
});

/** What one session takes until it gets no more, and how another sees whether there is some left. */
const limits = [
  {
    name: 'inotify instances',
    take: `
try:
    while True:
        if libc.inotify_init() < 0: break
except OSError: pass`,
    use: `print('left' if libc.inotify_init() >= 0 else 'none')`,
  },
  {
    name: 'pages of pipes',
    take: `
held = []
while len(held) < 300:
    held.append(os.pipe())
    try: fcntl.fcntl(held[-1][1], 1031, 1 << 20)
    except OSError: break`,
    use: `
r, w = os.pipe()
try: fcntl.fcntl(w, 1031, 1 << 20); print('left')
except OSError: print('none')`,
  },
  {
    name: 'message queues',
    take: `
made = 0
while made < 300 and libc.mq_open(b'/taken%d' % made, os.O_CREAT | os.O_RDWR, 0o600, None) >= 0: made += 1`,
    use: `print('left' if libc.mq_open(b'/mine', os.O_CREAT | os.O_RDWR, 0o600, None) >= 0 else 'none')`,
  },
  {
    name: 'pending signals',
    take: `
signal.pthread_sigmask(signal.SIG_BLOCK, [40])
for _ in range(500): libc.sigqueue(os.getpid(), 40, None)`,
    use: `
resource.setrlimit(resource.RLIMIT_SIGPENDING, (200, 200))
signal.pthread_sigmask(signal.SIG_BLOCK, [40])
print('left' if libc.sigqueue(os.getpid(), 40, None) == 0 else 'none')`,
  },
];
const begin = 'import ctypes, fcntl, os, resource, signal\nlibc = ctypes.CDLL(None, use_errno=True)\n';

describe('one session does not take from another', () => {
  test.each(limits)('its $name', async ({ take, use }) => {
    const script = `${begin}${take}\nprint('taken', flush=True)\ninput()`;
    const taking = greedy.execute(['python3', '-c', script], { input: true });
    try {
      await printed(greedy, taking, 'taken\n');
      expect(await text(other, ['python3', '-c', begin + use])).toBe('left\n');
    } finally {
      await taking.cancel();
    }
  });
});
