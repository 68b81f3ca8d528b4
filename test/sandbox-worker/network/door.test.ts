import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { createDoor, type Door } from '../../../services/sandbox-worker/network/egress/door.ts';

let door: Door;
let box: ChildProcess;
let pid: number;

beforeAll(async () => {
  door = createDoor(join(dirname(inject('setup').guestPath), 'netdoor'));
  // A process in a network namespace of its own, with a loopback; it says so when it is there.
  box = spawn('unshare', ['--net', 'sh', '-c', 'ip link set lo up && echo up && exec sleep 600']);
  if (box.stdout !== null) await once(box.stdout, 'data');
  pid = box.pid ?? 0;
});
afterAll(() => {
  box?.kill('SIGKILL');
  door?.close();
});

/** Says something to a port of the box's loopback and returns the answer. */
async function askInside(port: number): Promise<string> {
  const script = `exec 3<>/dev/tcp/127.0.0.1/${port} && echo hello >&3 && cat <&3`;
  const child = spawn('nsenter', [`--net=/proc/${pid}/ns/net`, 'bash', '-c', script]);
  const chunks = await Array.fromAsync(child.stdout);
  return Buffer.concat(chunks as Buffer[]).toString();
}

test('a listener answers inside the namespace, and nowhere else', async () => {
  expect(await door.obstacle()).toBeUndefined();
  const server = await door.listen(pid, 3128);
  server.on('connection', (socket) => socket.once('data', (data) => socket.end(`heard ${data}`)));
  expect(server.address()).toEqual({ address: '127.0.0.1', family: 'IPv4', port: 3128 });
  expect(await askInside(3128)).toBe('heard hello\n');
  server.close();
});

test('many at a time are told apart', async () => {
  const ports = Array.from({ length: 40 }, (_, at) => 4000 + at);
  const servers = await Promise.all(ports.map((port) => door.listen(pid, port)));
  expect(servers.map((server) => (server.address() as { port: number }).port)).toEqual(ports);
  for (const server of servers) server.close();
});

test('a port that is taken, a process that is gone and the host itself are refused', async () => {
  const server = await door.listen(pid, 3129);
  await expect(door.listen(pid, 3129)).rejects.toThrow('EADDRINUSE');
  server.close();
  await expect(door.listen(2 ** 30, 3128)).rejects.toThrow('ENOENT');
  await expect(door.listen(process.pid, 3128)).rejects.toThrow('EINVAL');
});

test('a port is free again once its listener is closed', async () => {
  for (let round = 0; round < 3; round += 1) {
    const server = await door.listen(pid, 3130);
    server.close();
    await once(server, 'close');
  }
});

test('a program that is missing is an obstacle, and no end of the worker', async () => {
  const missing = createDoor('/nowhere/netdoor');
  expect(await missing.obstacle()).toContain('ENOENT');
});
