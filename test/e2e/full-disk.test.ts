import { execFileSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { eventually } from './eventually.ts';
import { startTestStack, type TestStack } from './stack.ts';
import { chooseMetricsPlace, type MetricsPlace } from './worker-metrics.ts';

const mebibyte = 1_048_576;
// A disk of its own, small enough to fill, takes root.
const asRoot = process.getuid?.() === 0;
let stack: TestStack;
let metrics: MetricsPlace;
let slots: string;

beforeAll(async () => {
  if (!asRoot) return;
  metrics = await chooseMetricsPlace();
  // Without a floor: what happens when all that keeps the disk from filling up was not enough.
  stack = await startTestStack({
    env: { worker: { ...metrics.env, ASSAY_DISK_FLOOR_BYTES: '0', ASSAY_DISK_FLOOR_INODES: '0' } },
  });
  slots = join(stack.stack.dataDir, 'worker', 's');
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64m,mode=0711', 'tmpfs', slots]);
});
afterAll(async () => {
  if (!asRoot) return;
  await stack.stack.stop();
  execFileSync('umount', [slots]);
  await stack.stop();
});

test.skipIf(!asRoot)('a worker whose disk is full keeps its sessions, and loses no byte once it has room', async () => {
  const limits = { diskBytes: 16 * mebibyte };
  const [session, other] = await Promise.all([1, 2].map(() => stack.client.sessions.create({ limits })));
  if (session === undefined || other === undefined) throw new Error('expected two sessions');
  const shell = await session.openShell();
  const execution = session.execute('until [ -e /tmp/full ]; do sleep 0.02; done; head -c 3000000 /dev/zero; echo end');
  await execution.started;
  const filler = join(slots, session.id, 'filler');
  expect(() => writeFileSync(filler, Buffer.alloc(64 * mebibyte))).toThrow('ENOSPC');
  // The record of its start fits into the last block of the journal, or waits.
  const command = shell.run('touch /tmp/full; echo done');
  await eventually(async () => expect((await metrics.scrape()).get('guest_reconnects_total')).toBeGreaterThan(0));
  await other.close();
  rmSync(filler);
  expect(String((await command).stdout)).toBe('done\n');
  expect(await execution.result()).toMatchObject({ reason: 'EXITED', stdoutBytes: 3_000_004 });
  expect(stack.stack.restarts('worker')).toBe(0);
  await session.close();
});

test.skipIf(!asRoot)(
  'a command that cannot be written down is refused in words, and runs once there is room',
  async () => {
    const session = await stack.client.sessions.create({ limits: { diskBytes: 16 * mebibyte } });
    const filler = join(slots, session.id, 'filler');
    expect(() => writeFileSync(filler, Buffer.alloc(64 * mebibyte))).toThrow('ENOSPC');
    // Longer than what is left of the last block of any file.
    const long = `: ${'x'.repeat(100_000)}; echo ran >>/tmp/ran`;
    await expect(session.run(long, { id: 'long' })).rejects.toMatchObject({ reason: 'HOST_FULL' });
    rmSync(filler);
    await session.run(long, { id: 'long' });
    expect(String((await session.run('cat /tmp/ran')).stdout)).toBe('ran\n');
    await session.close();
  },
);
