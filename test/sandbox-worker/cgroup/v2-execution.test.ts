import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createExecutionCgroups } from '../../../services/sandbox-worker/cgroup/execution-cgroups.ts';
import { createLog } from '../../../services/shared/log.ts';
import { runDirectory } from '../../run.ts';

// Ordinary files in place of the kernel's: what is read and written, not what the kernel does with it.
const log = createLog('test', 'silent');
let directory: string;

const write = (path: string, content: string): void => {
  mkdirSync(dirname(join(directory, path)), { recursive: true });
  writeFileSync(join(directory, path), content);
};
const read = (path: string): string => readFileSync(join(directory, path), 'utf8');
const open = () => createExecutionCgroups({ log, root: join(directory, 'cgroup'), proc: join(directory, 'proc') });

beforeEach(() => {
  directory = mkdtempSync(join(runDirectory(), 'cgroup-test-'));
  write('cgroup/cgroup.controllers', 'cpu memory pids\n');
  write('cgroup/docker/abc/cgroup.procs', '');
  write('cgroup/docker/abc/cgroup.subtree_control', '          ');
  write('cgroup/docker/abc/assay-init/cgroup.procs', '');
  write('proc/50/cgroup', '0::/docker/abc\n');
  write('proc/50/task/50/children', '60 61 70 ');
  write('proc/60/status', 'Name:\tsh\nNSpid:\t60\t8\n');
  write('proc/61/status', 'Name:\tsh\nNSpid:\t61\t9\n');
});

afterEach(() => rmSync(directory, { recursive: true }));

test('the processes move to a leaf before controllers are enabled', async () => {
  write('cgroup/docker/abc/cgroup.procs', '50\n');
  const cgroups = open();
  expect(cgroups.kind).toBe('v2');
  expect(cgroups.container(50)).toBeDefined();
  expect(read('cgroup/docker/abc/assay-init/cgroup.procs')).toBe('50');
  expect(read('cgroup/docker/abc/cgroup.subtree_control')).toContain('+pids');
});

test('a container whose processes already moved is found at the same place', async () => {
  write('proc/50/cgroup', '0::/docker/abc/assay-init\n');
  write('cgroup/docker/abc/assay-3/cgroup.procs', '');
  expect(open().container(50)?.existing(3n, 0)).toBeDefined();
  expect(open().container(50)?.existing(4n, 0)).toBeUndefined();
});

test('the waiting child is placed by its pid in the container', async () => {
  write('cgroup/docker/abc/assay-1/cgroup.procs', '');
  const execution = open().container(50)?.execution(1n);
  expect(await execution?.place(8)).toBe(true);
  expect(read('cgroup/docker/abc/assay-1/cgroup.procs')).toBe('60');
  expect(await execution?.place(60)).toBe(false);
});

test('usage is read from the files of v2, and a missing peak is 0', async () => {
  write('cgroup/docker/abc/assay-1/cpu.stat', 'usage_usec 1234\nuser_usec 1000\n');
  write('cgroup/docker/abc/assay-1/memory.events', 'low 0\noom 3\noom_kill 2\noom_group_kill 9\n');
  const execution = open().container(50)?.execution(1n);
  expect(execution?.usage()).toEqual({ cpuMicros: 1234, peakMemoryBytes: 0, oomKills: 2 });
  write('cgroup/docker/abc/assay-1/memory.peak', '4096\n');
  expect(execution?.usage()?.peakMemoryBytes).toBe(4096);
  expect(execution?.populated()).toBe(false);
  write('cgroup/docker/abc/assay-1/cgroup.events', 'populated 1\nfrozen 0\n');
  expect(execution?.populated()).toBe(true);
});

test('SIGKILL uses cgroup.kill', async () => {
  write('cgroup/docker/abc/assay-1/cgroup.kill', ' ');
  write('cgroup/docker/abc/assay-1/cgroup.procs', '60\n61\n0\n');
  expect(open().container(50)?.execution(1n).kill(9)).toBe(2);
  expect(read('cgroup/docker/abc/assay-1/cgroup.kill')).toBe('1');
});

test.each(['0::/', '0::/../../docker/abc', '', 'nonsense'])('a container in "%s" is refused', (line) => {
  write('proc/50/cgroup', `${line}\n`);
  expect(open().container(50)).toBeUndefined();
});

test('without cgroups there are none', async () => {
  rmSync(join(directory, 'cgroup'), { recursive: true });
  expect(open().kind).toBe('none');
  expect(open().container(50)).toBeUndefined();
});
