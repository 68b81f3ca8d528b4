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

async function text(command: string | string[]): Promise<string> {
  const { stdout, stderr } = await session.run(command);
  return `${stdout}${stderr}`;
}

describe('inside a session', () => {
  test('there is no network but loopback', async () => {
    expect((await text('ls /sys/class/net')).trim()).toBe('lo');
    expect(await text('cat /proc/net/route')).not.toMatch(/^eth/m);
  });

  test('the loopback works and has its usual names, and nothing of the host is told by them', async () => {
    const script = `
import socket
for name in 'localhost', socket.gethostname():
    server = socket.create_server((name, 0))
    socket.create_connection(server.getsockname()).close()
    print(name, server.getsockname()[0])
`;
    expect(await text(['python3', '-c', script])).toBe('localhost 127.0.0.1\nsandbox 127.0.0.1\n');
    expect(await text('hostname; cat /etc/hostname /etc/resolv.conf')).toBe('sandbox\nsandbox\n');
    const refused = await text('for file in hosts hostname resolv.conf; do (echo x >> /etc/$file) || true; done');
    expect(refused.match(/denied|[Rr]ead-only/g)).toHaveLength(3);
  });

  test('there is no capability, no new privilege, and seccomp is on', async () => {
    const status = await text('cat /proc/self/status');
    for (const set of ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb']) {
      expect(status).toMatch(new RegExp(`^${set}:\\s+0+$`, 'm'));
    }
    expect(status).toMatch(/^NoNewPrivs:\s+1$/m);
    expect(status).toMatch(/^Seccomp:\s+2$/m);
    expect(await text('id -u; id -un; echo $HOME; pwd')).toBe('1000\nagent\n/home/agent\n/workspace\n');
  });

  test('io_uring and vsock are closed', async () => {
    const script = `
import ctypes, socket
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall(425, 8, 0); print(ctypes.get_errno())
try: socket.socket(40, 1); print("open")
except OSError as error: print(error.errno)`;
    expect(await text(['python3', '-c', script])).toBe('38\n97\n');
  });

  test('the guest cannot be read, signalled, stopped or traced', async () => {
    expect(await text('cat /proc/1/environ')).toContain('Permission denied');
    expect(await text('ls /proc/1/fd')).toContain('Permission denied');
    expect(await text('cat /proc/1/mem | head -c 1')).toContain('Permission denied');
    expect(await text('env; cat /proc/*/environ 2>/dev/null | tr "\\0" "\\n"')).not.toContain('ASSAY_GUEST_SECRET');
    await session.run('kill -9 1; kill -STOP 1; kill -TERM 1; kill -SEGV 1');
    const trace = `import ctypes; print(ctypes.CDLL(None).ptrace(16, 1, 0, 0))`;
    expect((await text(['python3', '-c', trace])).trim()).toBe('-1');
    expect(await text('echo alive')).toBe('alive\n');
  });

  test('the limits of the guest cannot be changed, those of a process itself can', async () => {
    const refused = await text('prlimit --pid 1 --nofile=1:1');
    expect(refused).toContain('Operation not permitted');
    expect(await text('prlimit --nofile=64:64 sh -c "ulimit -n"; ulimit -n 32; ulimit -n')).toBe('64\n32\n');
    expect(await text('echo alive')).toBe('alive\n');
  });

  test('a program is killed before the services when memory is short, whatever score it gives itself', async () => {
    const file = '/proc/$$/oom_score_adj';
    expect(await text(`cat ${file}; echo 0 > ${file}; cat ${file}`)).toBe('500\n0\n');
    const refused = await text(
      `for score in -1 -500 -900; do (echo $score > ${file}) 2> /dev/null || echo refused; done`,
    );
    expect(refused).toBe('refused\n'.repeat(3));
  });

  test('no process can connect in place of the guest', async () => {
    const script = `
import socket, struct, time
for attempt in range(40):
    s = socket.socket(socket.AF_UNIX); s.settimeout(60)
    try: s.connect("/run/assay/guest.sock")
    except OSError: continue
    payload = struct.pack("<IQ", 1, 2**40) + b"x" * 32
    if attempt % 2: s.sendall(struct.pack("<IBBHQ", len(payload), 1, 0, 0, 0) + payload)
    else: s.sendall(b"\\xff" * 64)
    try:
        if s.recv(1): print("answered"); break
    except ConnectionResetError: pass
held = []
for attempt in range(30):
    s = socket.socket(socket.AF_UNIX); s.connect_ex("/run/assay/guest.sock"); held.append(s)
print("refused")`;
    expect(await text(['python3', '-c', script])).toBe('refused\n');
    expect(await text('echo alive')).toBe('alive\n');
  });

  test('what is mounted from the host cannot be written', async () => {
    expect(await text('touch /run/assay/x; rm /run/assay/guest.sock; echo x >/run/assay/guest')).toMatch(
      /Read-only file system[\s\S]*Read-only file system/,
    );
  });

  test('another session is not to be seen', async () => {
    const other = await stack.client.sessions.create({});
    await other.run('echo secret >/workspace/mine; sleep 7100 & true');
    expect(await text('ls /workspace; ps ax')).not.toMatch(/mine|7100/);
    await other.close();
  });
});

/** Connects to the guest's socket until it is ended, and counts how often somebody listened. */
const flood = `
import socket, threading, time
held, count, tries = [], 0, 0
def run():
    global count, tries
    while True:
        s = socket.socket(socket.AF_UNIX); tries += 1
        try:
            s.connect("/run/assay/guest.sock"); count += 1
            held.append(s)
        except OSError: s.close()
        if len(held) > 300: held.pop(0).close()
for _ in range(4): threading.Thread(target=run, daemon=True).start()
print("flooding", flush=True)
input()
while tries < 3000: time.sleep(0.01)
print(count, flush=True)`;

describe('a session that floods the socket of its guest', () => {
  test('finds nobody who listens while its guest is connected', async () => {
    const found = await session.run(['python3', '-c', flood], { input: '\n' });
    expect(Number(`${found.stdout}`.split('\n')[1])).toBe(0);
  });

  test('does not keep its guest from a new worker', async () => {
    const flooding = session.execute(['python3', '-c', flood], { input: true });
    for await (const event of flooding) if (event.type === 'stdout') break;
    await stack.replace('worker');
    expect(`${(await session.run('echo alive')).stdout}`).toBe('alive\n');
    await session.attach(flooding.id).cancel();
  });
});
