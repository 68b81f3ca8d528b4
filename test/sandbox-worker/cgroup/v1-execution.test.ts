import { spawn } from 'node:child_process';
import { createReadStream } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, describe, expect, test } from 'vitest';
import type { ContainerCgroups, ExecutionCgroup } from '../../../services/sandbox-worker/cgroup/execution-cgroup.ts';
import { createExecutionCgroups } from '../../../services/sandbox-worker/cgroup/execution-cgroups.ts';
import { createV1Execution } from '../../../services/sandbox-worker/cgroup/v1-execution.ts';
import { createScratchHost, log, mebibyte, nothingLeft, type Reported } from '../docker/scratch-host.ts';

const host = createScratchHost();
const cgroups = createExecutionCgroups({ log });
/** Forks whenever it can, and goes on when it cannot. */
const bomb = `
import os
while True:
    try: os.fork()
    except OSError: pass`;
const sigterm = 15;
const sigkill = 9;

afterAll(async () => {
  expect(await host.close()).toEqual(nothingLeft);
});

interface Placed extends Reported {
  readonly container: ContainerCgroups;
  readonly execution: ExecutionCgroup;
  readonly namespacePid: number;
}

/** A child of PID 1 that waits, is placed, goes on with the workload and says when it is `up`. */
async function place(workload: string): Promise<Placed> {
  const child = `read go < /run/assay/go\n${workload}`;
  const reported = await host.report(`( ${child}\n) > /dev/null 2>&1 &\necho $!`, {
    limits: { cpus: 2, memoryBytes: 64 * mebibyte, diskBytes: 32 * mebibyte, pids: 64 },
  });
  const container = cgroups.container(reported.pid);
  if (!container) throw new Error('the container has no cgroup of its own');
  const namespacePid = Number(reported.said);
  const execution = container.execution(1n);
  expect(await execution.place(namespacePid)).toBe(true);
  const up = text(createReadStream(join(reported.slot, 'up')));
  await writeFile(join(reported.slot, 'go'), 'go\n');
  await up;
  return { ...reported, container, execution, namespacePid };
}

async function ended({ execution }: Placed): Promise<void> {
  await expect.poll(() => execution.populated(), { interval: 5 }).toBe(false);
}

describe.runIf(cgroups.kind === 'v1')('on a host with cgroup v1', () => {
  test('a kill reaches children that called setsid, double-forked or ignore TERM', async () => {
    // It is up when all that have it open have closed it, and so have set their traps.
    const placed = await place(`
      exec 3> /run/assay/up
      setsid sh -c 'trap "" TERM; exec 3>&-; sleep 1000 & sleep 1000 & wait' &
      ( ( trap "" TERM; exec 3>&-; sleep 1000 ) & )
      exec 3>&-
      sleep 1000 &
      wait`);
    const { execution, engine, id, pid } = placed;
    await expect.poll(() => execution.kill(0), { interval: 5 }).toBeGreaterThanOrEqual(5);
    expect(await execution.remove()).toBe(false);
    expect(execution.kill(sigterm)).toBeGreaterThanOrEqual(5);
    expect(execution.populated()).toBe(true);
    expect(execution.kill(sigkill)).toBeGreaterThanOrEqual(1);
    await ended(placed);
    expect(await execution.remove()).toBe(true);
    expect(await execution.remove()).toBe(true);
    expect(await engine.pid(id)).toBe(pid);
    await engine.remove(id);
  });

  test('a fork bomb ends and the container lives', async () => {
    const placed = await place(`echo up > /run/assay/up; exec python3 -c '${bomb}'`);
    const { execution, engine, id, pid } = placed;
    await expect.poll(() => execution.kill(0), { interval: 5 }).toBeGreaterThan(40);
    expect(execution.kill(sigkill)).toBeGreaterThan(40);
    await ended(placed);
    expect(await engine.pid(id)).toBe(pid);
    await engine.remove(id);
  });

  test('of two executions the memory hog alone is out of memory, and both are accounted', async () => {
    const placed = await place('echo up > /run/assay/up; head -c 1G /dev/zero | tail -c 1G > /dev/null');
    const { execution, container, engine, id } = placed;
    const sibling = container.execution(2n);
    await ended(placed);
    const usage = execution.usage();
    expect(usage?.oomKills).toBe(1);
    expect(usage?.cpuMicros).toBeGreaterThan(1_000);
    expect(usage?.peakMemoryBytes).toBeGreaterThan(32 * mebibyte);
    expect(sibling.usage()).toBeUndefined();
    expect(await Promise.all([execution.remove(), sibling.remove()])).toEqual([true, true]);
    await engine.remove(id);
  });

  test('a kill of a paused container takes effect once it is resumed', async () => {
    const placed = await place('echo up > /run/assay/up; sleep 1000');
    const { execution, engine, id } = placed;
    await engine.pause(id);
    expect(execution.kill(sigkill)).toBeGreaterThanOrEqual(1);
    await engine.resume(id);
    await ended(placed);
    await engine.remove(id);
  });

  test('the next worker finds the execution again, and nothing where there was none', async () => {
    const placed = await place('echo up > /run/assay/up; sleep 1000');
    const { container, engine, id, pid } = placed;
    const successor = createExecutionCgroups({ log }).container(pid);
    expect(successor?.existing(1n, 0)?.populated()).toBe(true);
    expect(successor?.existing(7n, 0)).toBeUndefined();
    expect(successor?.existing(1n, 0)?.kill(sigkill)).toBeGreaterThanOrEqual(1);
    await ended(placed);
    expect(await container.execution(1n).place(999_999)).toBe(false);
    await engine.remove(id);
    expect(cgroups.container(pid)).toBeUndefined();
    expect(successor?.existing(1n, 0)).toBeUndefined();
  });

  test('a container that is removed under its executions and nests fails nobody', async () => {
    const { container, execution, namespacePid, engine, id } = await place('echo up > /run/assay/up; sleep 1000');
    const resident = container.nest(1);
    expect(await resident?.place(namespacePid)).toBe(true);
    await engine.remove(id);
    expect(resident?.usage()).toBeUndefined();
    expect(resident?.renew()).toBe(false);
    expect(execution.usage()).toBeUndefined();
    expect(await execution.place(namespacePid)).toBe(false);
    expect(await container.nest(2)?.place(namespacePid)).toBe(false);
    expect([execution.kill(sigkill), resident?.kill(sigkill)]).toEqual([0, 0]);
    expect([await execution.remove(), await resident?.remove()]).toEqual([true, true]);
  });

  test('a nest whose container goes while its process is placed is not used', async () => {
    const { container, namespacePid, engine, id } = await place('echo up > /run/assay/up; sleep 1000');
    const nest = container.nest(1);
    const placing = nest?.place(namespacePid);
    const [placed] = await Promise.allSettled([placing, engine.remove(id)]);
    expect(placed.status).toBe('fulfilled');
    expect(await nest?.remove()).toBe(true);
  });

  test('a kill reaches the processes of an execution whose freezer cannot be made', () => {
    const child = spawn('sleep', ['1000'], { stdio: 'ignore' });
    const nowhere = join('/sys/fs/cgroup/freezer', `gone-${child.pid}`);
    const directories = { memory: nowhere, cpuacct: nowhere, freezer: join(nowhere, 'assay-1') };
    const execution = createV1Execution(
      { root: '/sys/fs/cgroup', proc: '/proc', initPid: child.pid as number },
      directories,
      { place: async () => undefined, remove: async () => true },
      () => (child.signalCode === null && !child.killed ? [child.pid as number] : []),
    );
    try {
      expect(execution.kill(sigkill)).toBe(1);
    } finally {
      child.kill('SIGKILL');
    }
  });

  test('the process of this worker is not mistaken for a container', () => {
    const own = cgroups.container(1);
    expect(own).toBeUndefined();
  });
});
