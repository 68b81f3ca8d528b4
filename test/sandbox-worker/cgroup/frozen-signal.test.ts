import { expect, test } from 'vitest';
import { signalFrozen } from '../../../services/sandbox-worker/cgroup/frozen-signal.ts';

/** A cgroup that forks once more in each round until it freezes. */
function forking(frozenAfter: number) {
  const log: string[] = [];
  let round = 0;
  return {
    log,
    freeze: () => {
      round += 1;
      log.push('freeze');
      return round >= frozenAfter;
    },
    thaw: () => void log.push('thaw'),
    pids: () => Array.from({ length: Math.min(Math.max(round, 1), frozenAfter) }, (_, index) => 100 + index),
  };
}

test('signals are sent between freeze and thaw', () => {
  const cgroup = forking(1);
  expect(signalFrozen(cgroup, 15, (pid) => cgroup.log.push(`signal ${pid}`))).toBe(1);
  expect(cgroup.log).toEqual(['freeze', 'signal 100', 'thaw']);
});

test('SIGKILL goes on until nobody new is found, and another signal is sent once', () => {
  const sent: number[] = [];
  expect(signalFrozen(forking(4), 9, (pid) => sent.push(pid))).toBe(4);
  expect(sent).toEqual([100, 101, 102, 103]);
  expect(signalFrozen(forking(4), 15, () => {})).toBe(1);
});

test('a process that ended in this moment is not counted, and the cgroup is thawed', () => {
  const cgroup = forking(1);
  const gone = () => {
    throw new Error('ESRCH');
  };
  expect(signalFrozen(cgroup, 15, gone)).toBe(0);
  expect(cgroup.log).toEqual(['freeze', 'thaw']);
});

test('an empty cgroup is not frozen at all', () => {
  const cgroup = { ...forking(1), pids: () => [] };
  expect(signalFrozen(cgroup, 9)).toBe(0);
  expect(cgroup.log).toEqual([]);
});

test('a pid that left a cgroup which does not freeze is not signalled: it may be any process by now', () => {
  const sent: number[] = [];
  const looks = [[100, 101], [100, 101], [100], [100]];
  const cgroup = { freeze: () => false, thaw() {}, pids: () => looks.shift() ?? [100] };
  expect(signalFrozen(cgroup, 15, (pid) => sent.push(pid))).toBe(1);
  expect(sent).toEqual([100]);
});
