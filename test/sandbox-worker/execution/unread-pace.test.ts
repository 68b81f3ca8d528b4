import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createUnreadPace } from '../../../services/sandbox-worker/execution/unread-pace.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('a little is taken at once, and much at the pace, each in its turn', () => {
  const pace = createUnreadPace(1_000_000);
  const taken: string[] = [];
  let bytes = 0;
  const ask = (name: string): void =>
    pace.inTurn(() => {
      taken.push(name);
      bytes += 100_000;
      if (bytes < 2_000_000) ask(name);
      return 100_000;
    });
  ask('a');
  ask('b');
  // The first had all of what may be taken at once, before anybody else came.
  expect(taken).toEqual(['a', 'a', 'a']);
  vi.advanceTimersByTime(1_000);
  expect(bytes).toBeGreaterThan(1_200_000);
  expect(bytes).toBeLessThanOrEqual(1_350_000);
  expect(taken.slice(3).every((name, at) => name === (at % 2 === 0 ? 'a' : 'b'))).toBe(true);
  vi.advanceTimersByTime(10_000);
  expect(bytes).toBeGreaterThanOrEqual(2_000_000);
});

test('time in which nothing was taken counts only a little', () => {
  const pace = createUnreadPace(1_000_000);
  let turns = 0;
  const take = (): number => {
    turns += 1;
    return 100_000;
  };
  vi.advanceTimersByTime(60_000);
  for (let asked = 0; asked < 10; asked++) pace.inTurn(take);
  expect(turns).toBe(3);
  vi.advanceTimersByTime(1_000);
  expect(turns).toBe(10);
});
