import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openContainerUsage } from '../../../services/sandbox-worker/cgroup/container-usage.ts';
import { runDirectory } from '../../run.ts';

// Ordinary files in place of the kernel's: what is read, not what the kernel says.
let directory: string;
const write = (path: string, content: string): void => {
  mkdirSync(dirname(join(directory, path)), { recursive: true });
  writeFileSync(join(directory, path), content);
};
const usage = () => openContainerUsage(50, { root: join(directory, 'cgroup'), proc: join(directory, 'proc') });

beforeEach(() => {
  directory = mkdtempSync(join(runDirectory(), 'usage-test-'));
});

afterEach(() => rmSync(directory, { recursive: true }));

test('a container of cgroup v1 tells its time, its peak and its kills', () => {
  write('proc/50/cgroup', '9:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n');
  write('cgroup/memory/docker/abc/memory.max_usage_in_bytes', '4096\n');
  write('cgroup/memory/docker/abc/memory.oom_control', 'oom_kill_disable 0\nunder_oom 0\noom_kill 2\n');
  write('cgroup/cpuacct/docker/abc/cpuacct.usage', '5000000\n');
  expect(usage()?.()).toEqual({ cpuMicros: 5_000, peakMemoryBytes: 4_096, oomKills: 2 });
});

test('a container of cgroup v2 does too', () => {
  write('proc/50/cgroup', '0::/docker/abc\n');
  write('cgroup/cgroup.controllers', 'cpu memory\n');
  write('cgroup/docker/abc/memory.peak', '8192\n');
  write('cgroup/docker/abc/memory.events', 'oom 1\noom_kill 3\n');
  write('cgroup/docker/abc/cpu.stat', 'usage_usec 77\n');
  expect(usage()?.()).toEqual({ cpuMicros: 77, peakMemoryBytes: 8_192, oomKills: 3 });
});

test('a container that is gone, or has no cgroup of its own, tells nothing', () => {
  expect(usage()).toBeUndefined();
  write('proc/50/cgroup', '9:memory:/\n4:cpuacct:/\n');
  expect(usage()).toBeUndefined();
});
