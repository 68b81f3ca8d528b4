import { expect, test } from 'vitest';
import { signalCgroup } from '../../../services/sandbox-worker/cgroup/signal-cgroup.ts';

/** A cgroup in which a process more is found at each look, until it is frozen or has so many. */
function forking(most: number) {
  const log: string[] = [];
  let frozen = false;
  let looks = 0;
  return {
    log,
    freeze: () => {
      log.push('freeze');
      frozen = true;
      return true;
    },
    thaw: () => void log.push('thaw'),
    pids: () => {
      if (!frozen) looks = Math.min(looks + 1, most);
      return Array.from({ length: looks }, (_, index) => 100 + index);
    },
  };
}

test('SIGKILL goes round until nobody new is found, and nothing has to be frozen for it', () => {
  const cgroup = forking(3);
  const sent: number[] = [];
  expect(signalCgroup(cgroup, 9, (pid) => sent.push(pid))).toBe(3);
  expect(sent).toEqual([100, 101, 102]);
  expect(cgroup.log).toEqual([]);
});

test('what forks faster than it is killed is frozen and killed', () => {
  const cgroup = forking(1_000);
  const sent: number[] = [];
  signalCgroup(cgroup, 9, (pid) => sent.push(pid));
  expect(sent).toEqual([...new Set(sent)]);
  expect(sent).toHaveLength(cgroup.pids().length);
  expect(cgroup.log).toEqual(['freeze', 'thaw']);
});

test('another signal is sent once to each, and not to what they start when they hear it', () => {
  const cgroup = forking(5);
  expect(signalCgroup(cgroup, 15, () => {})).toBe(1);
  expect(cgroup.log).toEqual([]);
});

test('a process that ended in this moment is not counted', () => {
  const gone = () => {
    throw new Error('ESRCH');
  };
  expect(signalCgroup(forking(1), 15, gone)).toBe(0);
});

test('a pid from a list that has become old is signalled only if it is still there: it may be any process by now', () => {
  const sent: number[] = [];
  const looks = [
    [100, 101, 102],
    [100, 102],
  ];
  const cgroup = { freeze: () => true, thaw() {}, pids: () => looks.shift() ?? [100, 102] };
  const slowly = (pid: number): void => {
    sent.push(pid);
    const until = performance.now() + 5;
    while (performance.now() < until);
  };
  signalCgroup(cgroup, 15, slowly);
  expect(sent).toEqual([100, 102]);
});
