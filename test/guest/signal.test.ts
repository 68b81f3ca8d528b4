import { rmSync, writeFileSync } from 'node:fs';
import { expect, onTestFinished, test } from 'vitest';
import { type } from './frame-codec.ts';
import { useGuest } from './guest-suite.ts';
import { patience } from './patience.ts';
import { processState } from './process-state.ts';
import { readExit } from './test-worker.ts';

const guest = useGuest();

const TERM = 15;
const KILL = 9;
const sh = (script: string) => ({ argv: ['sh', '-c', script] });
const alive = (pid: string | undefined) => !['', 'Z', 'X'].includes(processState(pid));

/** The lines an execution printed, once there are `count` of them. */
async function lines(number: number, count: number): Promise<string[]> {
  const spool = guest.worker.spool(number, 1);
  const read = () => spool.bytes().toString().split('\n').slice(0, -1);
  await guest.worker.until(() => read().length >= count);
  return read();
}

/** A process that was sent KILL is gone soon; there is no event for it here. */
const gone = (pid: string | undefined) => expect.poll(() => alive(pid), patience).toBe(false);

test('scope 1 reaches the program alone', async () => {
  guest.worker.start(1, sh('trap "exit 4" TERM; sleep 60 & echo $!; wait'));
  const [child] = await lines(1, 1);
  guest.worker.signal(1, TERM, 1);
  expect(readExit(await guest.worker.frame(type.EXIT, 1)).code).toBe(4);
  expect(alive(child)).toBe(true);
  guest.worker.signal(1, KILL, 2);
  await guest.worker.frame(type.CLOSED, 1);
  await gone(child);
});

test('scope 2 reaches the process group', async () => {
  guest.worker.start(1, sh('sleep 60 & echo $!; wait'));
  const [child] = await lines(1, 1);
  guest.worker.signal(1, TERM, 2);
  expect(readExit(await guest.worker.frame(type.EXIT, 1)).signal).toBe(TERM);
  await guest.worker.frame(type.CLOSED, 1);
  await gone(child);
});

test('scope 3 finds children that left the session, and orphans that still hold a stream', async () => {
  guest.worker.start(
    1,
    sh(
      'setsid sh -c "echo \\$\\$; exec sleep 60" & (setsid sh -c "echo \\$\\$; sleep 61 & echo \\$!; wait" &); sleep 62',
    ),
  );
  guest.worker.start(2, sh('setsid sleep 60 & echo $!; wait'));
  const pids = await lines(1, 3);
  const [other] = await lines(2, 1);
  guest.worker.signal(1, KILL, 3);
  expect(readExit(await guest.worker.frame(type.EXIT, 1)).signal).toBe(KILL);
  await guest.worker.frame(type.CLOSED, 1);
  for (const pid of pids) await gone(pid);
  expect(alive(other)).toBe(true);
  expect(guest.worker.frames.some((f) => f.number === 2 && f.type === type.EXIT)).toBe(false);
});

test('scope 3 remembers whom TERM found, when their parents are gone and they hold nothing', async () => {
  guest.worker.start(
    1,
    sh(
      'trap "exit 0" TERM; setsid sh -c "trap : TERM; echo \\$\\$; exec >/dev/null 2>&1; while :; do sleep 1; done" & echo ready; wait',
    ),
  );
  const daemon = (await lines(1, 2)).find((line) => line !== 'ready');
  guest.worker.signal(1, TERM, 3);
  await guest.worker.frame(type.EXIT, 1);
  await guest.worker.frame(type.CLOSED, 1);
  expect(alive(daemon)).toBe(true);
  guest.worker.signal(1, KILL, 3);
  await gone(daemon);
});

test('scope 3 ends a program that forks without end', async () => {
  const fuse = `${guest.build.directory}/fuse`;
  writeFileSync(fuse, '');
  // Should the guest fail, the bomb must not outlive the test.
  onTestFinished(() => rmSync(fuse));
  guest.worker.start(1, sh(`f() { while [ -e ${fuse} ]; do (sleep 0.01; f) & wait; done; }; echo go; f`));
  await lines(1, 1);
  guest.worker.signal(1, KILL, 3);
  await guest.worker.frame(type.CLOSED, 1);
});

test('scope 3 leaves no child behind whose fork was under way', async () => {
  await guest.build.make(`${guest.build.directory}/forker`);
  for (let number = 1; number <= 8; number++) {
    guest.worker.start(number, { argv: [`${guest.build.directory}/forker`] });
    await lines(number, 1);
    guest.worker.signal(number, KILL, 3);
    await guest.worker.frame(type.CLOSED, number);
  }
});

test('a signal after the end still reaches what was left behind', async () => {
  guest.worker.start(1, sh('sleep 60 & setsid sleep 61 & exit 0'));
  await guest.worker.frame(type.EXIT, 1);
  guest.worker.signal(1, TERM, 3);
  await guest.worker.frame(type.CLOSED, 1);
});

test('a signal for a number that is not live is ignored', async () => {
  guest.worker.signal(77, KILL, 3);
  guest.worker.start(1, sh('true'));
  await guest.worker.frame(type.CLOSED, 1);
  expect(guest.worker.connections).toBe(1);
});
