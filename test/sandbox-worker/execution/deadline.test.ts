import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createDeadline } from '../../../services/sandbox-worker/execution/deadline.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('a deadline that is due in the moment it is paused expires once it goes on, and only once', () => {
  const expired = vi.fn();
  const deadline = createDeadline(0, expired);
  deadline.pause();
  vi.advanceTimersByTime(1_000);
  expect(expired).not.toHaveBeenCalled();
  deadline.resume();
  vi.advanceTimersByTime(1_000);
  deadline.resume();
  vi.advanceTimersByTime(1_000);
  expect(expired).toHaveBeenCalledOnce();
});

test('a deadline that was cancelled never expires', () => {
  const expired = vi.fn();
  const deadline = createDeadline(500, expired);
  deadline.pause();
  deadline.cancel();
  deadline.resume();
  vi.advanceTimersByTime(1_000);
  expect(expired).not.toHaveBeenCalled();
});
