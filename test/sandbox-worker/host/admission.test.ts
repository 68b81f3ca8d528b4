import { expect, test } from 'vitest';
import { type AdmissionDeps, createAdmission } from '../../../services/sandbox-worker/host/admission.ts';
import { readDiskRoom, readHostRoom } from '../../../services/sandbox-worker/host/host-room.ts';

const limits = { cpus: 1, memoryBytes: 1_000, diskBytes: 2_000, pids: 100, project: 'alpha' };
const host = { totalMemoryBytes: 10_000, freeMemoryBytes: 9_000, totalPids: 1_142, usedPids: 100 };
const disk = { freeBytes: 20_000, mostFreeBytes: 30_000 };

function admission(more: Partial<AdmissionDeps> = {}) {
  return createAdmission({
    promised: () => [],
    disk: () => disk,
    host: () => host,
    cpus: () => 2,
    overcommit: { memory: 2, disk: 2, pids: 2 },
    sharePercent: 75,
    memoryFloorBytes: 500,
    pressure: () => undefined,
    ...more,
  });
}

const refused = (message: string) =>
  expect.objectContaining({ reason: 'HOST_FULL', message: expect.stringContaining(message) });

test('a sandbox that the host can hold is taken', () => {
  expect(() => admission().checkSandbox(limits)).not.toThrow();
});

test.each([
  ['memory', { memoryBytes: 10_001 }, "asks for 10001 bytes of memory, and the worker's host has 10000 bytes"],
  [
    'processes',
    { pids: 286 },
    "asks for 286 processes, and the worker's host has 1142, of which one session may have 285",
  ],
  ['cores', { cpus: 2.5 }, "asks for 2.5 cores, and the worker's host has 2"],
  ['disk', { diskBytes: 2 ** 40 }, "asks for 1 TiB of disk, and the worker's host has 29.3 KiB"],
])('a sandbox is refused that asks for more %s than the host can give', (_, more, message) => {
  expect(() => admission().checkSandbox({ ...limits, ...more })).toThrow(refused(message));
});

test.each([
  ['memory', { memoryBytes: 1_000 }, 'ASSAY_OVERCOMMIT_MEMORY'],
  ['processes', { pids: 100 }, 'ASSAY_OVERCOMMIT_PIDS'],
  ['disk', { diskBytes: 2_000 }, 'ASSAY_OVERCOMMIT_DISK'],
])('promises of %s end at the factor that is allowed', (_, each, setting) => {
  const none = { cpus: 1, memoryBytes: 0, diskBytes: 0, pids: 0, project: '' };
  const promised = (count: number) => () => Array.from({ length: count }, () => ({ ...none, ...each }));
  expect(() => admission({ promised: promised(19) }).checkSandbox({ ...none, ...each })).not.toThrow();
  expect(() => admission({ promised: promised(20) }).checkSandbox({ ...none, ...each })).toThrow(refused(setting));
});

test.each([
  [
    'memory',
    { memoryBytes: 1_000 },
    'may use 14.65 KiB of memory together, and this one 1000 bytes; the worker has 4.88 KiB left',
  ],
  ['processes', { pids: 100 }, 'may use 1500 processes together, and this one 100; the worker has 500 left'],
  [
    'disk',
    { diskBytes: 2_000 },
    'may use 29.3 KiB of disk together, and this one 1.95 KiB; the worker has 9.77 KiB left',
  ],
])('one project cannot be promised all %s: the rest is for others', (_, each, message) => {
  const none = { cpus: 1, memoryBytes: 0, diskBytes: 0, pids: 0 };
  const of = (project: string) => ({ ...none, ...each, project });
  const held = (count: number) => () => Array.from({ length: count }, () => of('alpha'));
  const share = expect.objectContaining({ reason: 'CAPACITY_SHARE', message: expect.stringContaining(message) });
  expect(() => admission({ promised: held(14) }).checkSandbox(of('alpha'))).not.toThrow();
  expect(() => admission({ promised: held(15) }).checkSandbox(of('alpha'))).toThrow(share);
  expect(() => admission({ promised: held(15) }).checkSandbox(of('beta'))).not.toThrow();
  expect(admission({ promised: held(14) }).hasShareFor('alpha')).toBe(true);
  expect(admission({ promised: held(15) }).hasShareFor('alpha')).toBe(false);
  expect(admission({ promised: held(15) }).hasShareFor('beta')).toBe(true);
});

test('large sandboxes of one project together are within its share too', () => {
  const large = { cpus: 1, memoryBytes: 0, diskBytes: 0, pids: 280, project: 'alpha' };
  const strict = (count: number) =>
    admission({
      overcommit: { memory: 1, disk: 1, pids: 1 },
      promised: () => Array.from({ length: count }, () => large),
    });
  expect(() => strict(1).checkSandbox(large)).not.toThrow();
  expect(() => strict(2).checkSandbox(large)).toThrow(
    expect.objectContaining({ message: expect.stringContaining('may use 560 processes together, and this one 280') }),
  );
  expect(() => strict(2).checkSandbox({ ...large, pids: 100 })).not.toThrow();
  expect(() => strict(2).checkSandbox({ ...large, project: 'beta' })).not.toThrow();
});

test('the processes of the host are never promised to the last one: a part is for the host itself', () => {
  const none = { cpus: 1, memoryBytes: 0, diskBytes: 0, pids: 0, project: '' };
  const strict = (promised: number) =>
    admission({
      overcommit: { memory: 1, disk: 1, pids: 1 },
      promised: () => Array.from({ length: promised }, () => ({ ...none, pids: 250 })),
    });
  expect(() => strict(3).checkSandbox({ ...none, pids: 250 })).not.toThrow();
  expect(() => strict(4).checkSandbox({ ...none, pids: 1 })).toThrow(
    refused('the 1000 that its host has for sandboxes'),
  );
});

test('a session may ask for every core, and for any number while the engine has not told how many there are', () => {
  expect(() => admission().checkSandbox({ ...limits, cpus: 2 })).not.toThrow();
  expect(() => admission({ cpus: () => undefined }).checkSandbox({ ...limits, cpus: 64 })).not.toThrow();
});

test('no sandbox is taken while memory is short', () => {
  const short = admission({ host: () => ({ ...host, freeMemoryBytes: 499 }) });
  expect(() => short.checkSandbox(limits)).toThrow(refused('499 bytes of memory are available'));
});

test('what a session would be refused for is told before one asks, and that processes run out', () => {
  expect(admission().shortages(limits)).toEqual([]);
  const gibibyte = 2 ** 30;
  const short = admission({
    host: () => ({ totalMemoryBytes: 8 * gibibyte, freeMemoryBytes: gibibyte / 8, totalPids: 1_000, usedPids: 951 }),
    memoryFloorBytes: gibibyte / 4,
    promised: () => [{ ...limits, pids: 1_950 }],
  });
  expect(short.shortages(limits)).toEqual([
    "128 MiB of memory are available on the worker's host, and it takes sessions from 256 MiB on (ASSAY_MEMORY_FLOOR_BYTES); close a session, or try again later",
    "951 of the 1000 processes and threads that the worker's host can have are in use; end some",
    expect.stringContaining(
      'a session with the default limits is refused: its sandboxes may use 1950 processes together, and this one 100; the worker promises 2 times',
    ),
  ]);
});

test('no work is taken under pressure, and the sentence is that of the pressure', () => {
  const pressed = admission({ pressure: () => 'the disk is nearly full' });
  expect(pressed.takesWork).toBe(false);
  expect(() => pressed.checkWork()).toThrow(refused('the disk is nearly full'));
  expect(() => pressed.checkSandbox(limits)).toThrow(refused('the disk is nearly full'));
});

test('this host has room, and a disk that nobody sees has no figures', () => {
  const { totalMemoryBytes, freeMemoryBytes, totalPids, usedPids } = readHostRoom();
  expect(freeMemoryBytes).toBeGreaterThan(0);
  expect(freeMemoryBytes).toBeLessThanOrEqual(totalMemoryBytes);
  expect(totalPids).toBeGreaterThan(1_000);
  expect(usedPids).toBeGreaterThan(1);
  expect(usedPids).toBeLessThan(totalPids);
  expect(readDiskRoom('/')?.totalBytes).toBeGreaterThan(0);
  expect(readDiskRoom('/no/such/place')).toBeUndefined();
});
