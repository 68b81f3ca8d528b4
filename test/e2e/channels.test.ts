import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Session } from '../../clients/typescript/index.ts';
import { printed } from './printed.ts';
import { startTestStack, type TestStack } from './stack.ts';

let stack: TestStack;
let sender: Session;
let listener: Session;
beforeAll(async () => {
  stack = await startTestStack();
  [sender, listener] = await Promise.all([stack.client.sessions.create({}), stack.client.sessions.create({})]);
});
afterAll(async () => {
  await Promise.all([sender?.close(), listener?.close()]);
  await stack?.stop();
});

async function heard(session: Session, command: string | string[]): Promise<string> {
  const { stdout, stderr } = await session.run(command);
  return `${stdout}${stderr}`;
}

/** What one session does until its input ends, and what another would notice of it. */
interface Channel {
  readonly name: string;
  readonly send: string;
  readonly hear: string;
}

const read = (path: string) => `
try: print(open('${path}').read())
except OSError as error: print(type(error).__name__)`;

const channels: readonly Channel[] = [
  {
    name: 'a lock on the program of the guest',
    send: `import fcntl; f = open('/run/assay/guest', 'rb'); fcntl.flock(f, fcntl.LOCK_EX)`,
    hear: `
import fcntl
f = open('/run/assay/guest', 'rb')
try: fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB); print('free')
except OSError: print('held')`,
  },
  {
    name: 'a lock on a file of the image',
    send: `import fcntl; f = open('/etc/passwd', 'rb'); fcntl.flock(f, fcntl.LOCK_EX)`,
    hear: `
import fcntl
f = open('/etc/passwd', 'rb')
try: fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB); print('free')
except OSError: print('held')`,
  },
  {
    name: 'the table of locks',
    send: `
import fcntl, struct
f = open('/workspace/locked', 'w')
fcntl.fcntl(f, 37, struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0x5ec2e7, 4, 0))`,
    hear: `
try: print([line for line in open('/proc/locks') if str(0x5ec2e7) in line])
except OSError as error: print(type(error).__name__)`,
  },
  {
    name: 'the number of terminals',
    send: `import os; held = [os.openpty() for _ in range(7)]`,
    hear: read('/proc/sys/kernel/pty/nr'),
  },
  {
    name: 'the number of asynchronous requests',
    send: `
import ctypes
context = ctypes.c_ulong(0)
# They are counted for the whole host, so none can be made.
if ctypes.CDLL(None).syscall(206, 77, ctypes.byref(context)) == 0: raise SystemExit('io_setup worked')`,
    hear: read('/proc/sys/fs/aio-nr'),
  },
  {
    name: 'the number of open files',
    send: `held = [open('/etc/passwd') for _ in range(800)]`,
    hear: read('/proc/sys/fs/file-nr'),
  },
];

describe('one session does not notice in another', () => {
  test.each(channels)('$name', async ({ send, hear }) => {
    const before = await heard(listener, ['python3', '-c', hear]);
    const sending = sender.execute(['python3', '-c', `${send}\nprint('sent', flush=True)\ninput()`], { input: true });
    try {
      await printed(sender, sending, 'sent\n');
      expect(await heard(listener, ['python3', '-c', hear])).toBe(before);
    } finally {
      await sending.cancel();
    }
  });

  test('by its link count or its inode that another has the same guest', async () => {
    const look = ['stat', '-c', '%h %i', '/run/assay/guest'];
    const [one, other] = await Promise.all([heard(sender, look), heard(listener, look)]);
    expect(one).toMatch(/^1 /);
    expect(other).not.toBe(one);
  });
});

test('programs that look at the machine still work', async () => {
  const script = 'nproc; free -m; ps ax; uptime; top -bn1 | head -5; df /; lscpu | head -3';
  expect(await heard(listener, `set -e; ${script}`)).toMatch(/Mem:[\s\S]*load average[\s\S]*Filesystem[\s\S]*CPU/);
});
