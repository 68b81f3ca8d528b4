import { expect, test } from 'vitest';
import { encodeFrame, encodeStart, readU64, type, u64 } from './frame-codec.ts';
import { SECRET } from './guest-process.ts';
import { useGuest } from './guest-suite.ts';
import { readExit } from './test-worker.ts';

const guest = useGuest();

const sh = (script: string) => ({ argv: ['sh', '-c', script] });

test('the guest says hello with its version, no number seen and the secret', async () => {
  const hello = await guest.worker.frame(type.HELLO);
  expect(hello.payload.readUInt32LE(0)).toBe(1);
  expect(readU64(hello.payload, 4)).toBe(0);
  expect(hello.payload.subarray(12).toString('hex')).toBe(SECRET);
});

test('a program that exits is told from one that a signal ended', async () => {
  guest.worker.start(1, sh('exit 137'));
  guest.worker.start(2, sh('kill -9 $$'));
  expect(readExit(await guest.worker.frame(type.EXIT, 1))).toMatchObject({ signal: 0, code: 137 });
  expect(readExit(await guest.worker.frame(type.EXIT, 2))).toMatchObject({ signal: 9 });
});

test('frames of an execution come in order: started, output, exit, closed', async () => {
  guest.worker.start(1, sh('echo out; echo err >&2'));
  await guest.worker.frame(type.CLOSED, 1);
  const kinds = guest.worker.frames.filter((f) => f.number === 1).map((f) => f.type);
  expect([...new Set(kinds)]).toEqual([type.STARTED, type.OUTPUT, type.EXIT, type.CLOSED]);
});

test('the exit tells cpu time, peak memory and how long it took', async () => {
  guest.worker.start(1, sh('i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'));
  const exit = readExit(await guest.worker.frame(type.EXIT, 1));
  expect(exit.userMicros).toBeGreaterThan(1000);
  expect(exit.peakKib).toBeGreaterThan(100);
  expect(exit.micros).toBeGreaterThanOrEqual(exit.userMicros);
});

test('a program that does not exist, a directory that does not exist and a user that is not allowed fail with their step', async () => {
  guest.worker.start(1, { argv: ['/no/such/program'] });
  guest.worker.start(2, { argv: ['true'], cwd: '/no/such/directory' });
  guest.worker.start(3, { argv: ['/etc/passwd'] });
  const failed = async (number: number) => {
    const { payload } = await guest.worker.frame(type.FAILED, number);
    return [payload.readUInt32LE(0), payload.readUInt32LE(4)];
  };
  expect(await failed(1)).toEqual([5, 2]);
  expect(await failed(2)).toEqual([3, 2]);
  expect(await failed(3)).toEqual([5, 13]);
  expect(guest.worker.frames.some((f) => f.type === type.EXIT || f.type === type.STARTED)).toBe(false);
});

test('the program is searched in the PATH of the environment it is given, and gets that environment alone', async () => {
  guest.worker.start(1, { argv: ['env'], env: ['PATH=/nowhere:/usr/bin:/bin', 'A=b c'] });
  guest.worker.start(2, { argv: ['env'], env: ['PATH=/nowhere'] });
  await guest.worker.frame(type.CLOSED, 1);
  expect(guest.worker.spool(1, 1).bytes().toString()).toBe('PATH=/nowhere:/usr/bin:/bin\nA=b c\n');
  expect((await guest.worker.frame(type.FAILED, 2)).payload.readUInt32LE(0)).toBe(5);
});

test('streams are separate and byte exact, NUL and invalid UTF-8 included', async () => {
  guest.worker.start(1, sh("printf 'a\\000b\\377'; printf 'c\\000\\n' >&2"));
  const exit = readExit(await guest.worker.frame(type.EXIT, 1));
  expect(guest.worker.spool(1, 1).bytes()).toEqual(Buffer.from([97, 0, 98, 255]));
  expect(guest.worker.spool(1, 2).bytes()).toEqual(Buffer.from([99, 0, 10]));
  expect(exit).toMatchObject({ stdout: 4, stderr: 3 });
});

test('a program can open its streams by name', async () => {
  guest.worker.start(1, sh('echo x >/dev/stderr; echo y >/proc/self/fd/1'));
  expect(readExit(await guest.worker.frame(type.EXIT, 1))).toMatchObject({ code: 0, stdout: 2, stderr: 2 });
});

test('without input the program reads an empty file', async () => {
  guest.worker.start(1, sh('cat; readlink /proc/self/fd/0'));
  await guest.worker.frame(type.EXIT, 1);
  expect(guest.worker.spool(1, 1).bytes().toString()).toBe('/dev/null\n');
});

test('a program inherits three descriptors, its own session, the default signals and the usual file limit', async () => {
  guest.worker.start(1, sh('sleep 60'));
  await guest.worker.frame(type.STARTED, 1);
  guest.worker.start(2, { argv: ['ls', '/proc/self/fd'] });
  guest.worker.start(
    3,
    sh('grep -E "^Sig(Blk|Ign)" /proc/self/status; ulimit -n; cut -d" " -f1,5,6 /proc/$$/stat; echo $$'),
  );
  await guest.worker.frame(type.CLOSED, 2);
  await guest.worker.frame(type.CLOSED, 3);
  // ls itself holds the directory as 3.
  expect(guest.worker.spool(2, 1).bytes().toString()).toBe('0\n1\n2\n3\n');
  const [blocked, ignored, files, ids, pid] = guest.worker.spool(3, 1).bytes().toString().split('\n');
  expect([blocked, ignored]).toEqual(['SigBlk:\t0000000000000000', 'SigIgn:\t0000000000000000']);
  expect(Number(files)).toBeGreaterThan(0);
  expect(ids).toBe(`${pid} ${pid} ${pid}`);
});

test('output after the end of the program belongs to the execution and ends with the last holder', async () => {
  guest.worker.start(1, { ...sh('echo first; exec 3<&0; (read line <&3; echo late) & exit 3'), input: true });
  const exit = readExit(await guest.worker.frame(type.EXIT, 1));
  expect(exit).toMatchObject({ code: 3, stdout: 6 });
  guest.worker.send(encodeFrame(type.INPUT, 1, Buffer.concat([u64(0), Buffer.from('now\n')])));
  const closed = await guest.worker.frame(type.CLOSED, 1);
  expect(readU64(closed.payload, 0)).toBe(11);
  expect(guest.worker.spool(1, 1).bytes().toString()).toBe('first\nlate\n');
});

test('a background child that never stops printing does not hold back the exit', async () => {
  guest.worker.start(1, sh('yes & exit 5'));
  const exit = readExit(await guest.worker.frame(type.EXIT, 1));
  expect(exit.code).toBe(5);
  await guest.worker.until(() => guest.worker.spool(1, 1).length > exit.stdout + (4 << 20));
  guest.worker.signal(1, 9, 2);
  await guest.worker.frame(type.CLOSED, 1);
});

test('a program blocks once a mebibyte is unacknowledged and goes on when it is', async () => {
  guest.worker.acknowledge = false;
  guest.worker.start(1, sh('head -c 8388608 /dev/zero; echo done >&2'));
  await guest.worker.until(() => guest.worker.spool(1, 1).length === 1 << 20);
  guest.worker.start(2, sh('true'));
  await guest.worker.frame(type.EXIT, 2);
  expect(guest.worker.spool(1, 1).length).toBe(1 << 20);
  expect(guest.worker.spool(1, 2).length).toBe(0);
  guest.worker.acknowledge = true;
  guest.worker.send(encodeFrame(type.ACK, 1, u64(1 << 20), 1));
  expect(readExit(await guest.worker.frame(type.EXIT, 1)).stdout).toBe(8 << 20);
  expect(guest.worker.spool(1, 1).length).toBe(8 << 20);
});

test('a start sent twice runs once and tells the state again', async () => {
  guest.worker.start(1, sh('echo once; sleep 60'));
  await guest.worker.until(() => guest.worker.spool(1, 1).length === 5);
  const from = guest.worker.frames.length;
  guest.worker.start(1, sh('echo twice'));
  const state = await guest.worker.frame(type.STATE, 1, from);
  expect(readU64(state.payload, 0)).toBe(5);
  await guest.worker.frame(type.STARTED, 1, from);
  expect(guest.worker.spool(1, 1).bytes().toString()).toBe('once\n');
});

test('a number that was forgotten is unknown and starts nothing', async () => {
  guest.worker.start(5, sh('true'));
  await guest.worker.frame(type.CLOSED, 5);
  guest.worker.send(encodeFrame(type.FORGET, 5), encodeStart(5, sh('true')), encodeStart(4, sh('true')));
  await guest.worker.frame(type.UNKNOWN, 5);
  await guest.worker.frame(type.UNKNOWN, 4);
});

test('a gated program waits for GO', async () => {
  guest.worker.start(1, { ...sh('echo ran'), gated: true });
  const spawned = await guest.worker.frame(type.SPAWNED, 1);
  guest.worker.start(2, sh(`readlink /proc/${spawned.payload.readUInt32LE(0)}/exe`));
  await guest.worker.frame(type.EXIT, 2);
  expect(guest.worker.frames.some((f) => f.number === 1 && f.type === type.STARTED)).toBe(false);
  guest.worker.send(encodeFrame(type.GO, 1), encodeFrame(type.GO, 1));
  const started = await guest.worker.frame(type.STARTED, 1);
  expect(started.payload).toEqual(spawned.payload);
  await guest.worker.frame(type.CLOSED, 1);
  expect(guest.worker.spool(1, 1).bytes().toString()).toBe('ran\n');
});

test('a gated program that is killed exits without having started', async () => {
  guest.worker.start(1, { ...sh('echo ran'), gated: true });
  await guest.worker.frame(type.SPAWNED, 1);
  guest.worker.signal(1, 9, 1);
  expect(readExit(await guest.worker.frame(type.EXIT, 1)).signal).toBe(9);
  await guest.worker.frame(type.CLOSED, 1);
  expect(guest.worker.frames.some((f) => f.type === type.STARTED)).toBe(false);
});

test('the table holds 256 executions, the next one fails and a forgotten one makes room', async () => {
  for (let number = 1; number <= 257; number++) guest.worker.start(number, sh('exit 0'));
  const failed = await guest.worker.frame(type.FAILED, 257);
  expect(failed.payload.readUInt32LE(0)).toBe(6);
  await guest.worker.frame(type.CLOSED, 100);
  guest.worker.send(encodeFrame(type.FORGET, 100));
  guest.worker.start(257, sh('exit 7'));
  expect(readExit(await guest.worker.frame(type.EXIT, 257)).code).toBe(7);
});

test('many executions at a time each end with their own code and output', async () => {
  for (let number = 1; number <= 100; number++) guest.worker.start(number, sh(`echo ${number}; exit ${number}`));
  for (let number = 1; number <= 100; number++) {
    expect(readExit(await guest.worker.frame(type.EXIT, number)).code).toBe(number);
    expect(guest.worker.spool(number, 1).bytes().toString()).toBe(`${number}\n`);
  }
});
