import { setImmediate as turn } from 'node:timers/promises';
import { pino } from 'pino';
import { describe, expect, test } from 'vitest';
import {
  createSpoolBudget,
  type Holding,
  runningKeep,
} from '../../../services/sandbox-worker/execution/spool-budget.ts';

const mebibyte = 1_048_576;
const log = pino({ level: 'silent' });

/** An execution that only counts. */
function holder(budget: ReturnType<typeof createSpoolBudget>, endedMs = 0) {
  const holding = {
    heldBytes: 0,
    endedMs,
    trim({ head, tail }: { head: number; tail: number }) {
      holding.grow(Math.min(0, head + tail - holding.heldBytes));
    },
    grow(bytes: number) {
      holding.heldBytes += bytes;
      budget.grew(holding, bytes);
    },
  };
  return holding satisfies Holding;
}

describe('the budget of the spools', () => {
  test('gives up the output that ended longest ago, in whatever order it was heard of', async () => {
    const budget = createSpoolBudget(32 * mebibyte, log);
    const ended = [3, 1, 2].map((endedMs) => holder(budget, endedMs));
    for (const each of ended) {
      each.grow(10 * mebibyte);
      budget.settled(each);
    }
    expect(budget.usedBytes).toBe(30 * mebibyte);
    const running = holder(budget);
    running.grow(12 * mebibyte);
    await turn();
    expect(ended.map(({ heldBytes }) => heldBytes / mebibyte)).toEqual([10, 0, 0]);
    expect(budget.usedBytes).toBe(22 * mebibyte);
    expect(budget.droppedBytes).toEqual({ settled: 20 * mebibyte, running: 0 });
  });

  test('trims the largest running execution only when nothing that ended is left', async () => {
    const budget = createSpoolBudget(32 * mebibyte, log);
    const [small, large, ended] = [holder(budget), holder(budget), holder(budget, 1)];
    small.grow(8 * mebibyte);
    ended.grow(8 * mebibyte);
    budget.settled(ended);
    large.grow(20 * mebibyte);
    await turn();
    expect([small, large, ended].map(({ heldBytes }) => heldBytes / mebibyte)).toEqual([8, 20, 0]);
    large.grow(5 * mebibyte);
    await turn();
    expect([small.heldBytes, large.heldBytes]).toEqual([8 * mebibyte, runningKeep.head + runningKeep.tail]);
  });

  test('is not asked for more by what it gives up, which must be recorded on the same disk', () => {
    const budget = createSpoolBudget(1_024 * mebibyte, log);
    const asked: boolean[] = [];
    for (const each of [holder(budget, 1), holder(budget, 2)]) {
      const { trim } = each;
      each.trim = (keep) => {
        asked.push(budget.full());
        trim(keep);
      };
      each.grow(10 * mebibyte);
      budget.settled(each);
    }
    expect(budget.full()).toBe(true);
    expect(asked).toEqual([false, false]);
  });

  test('gives up output at once when the disk is full before the budget is', () => {
    const budget = createSpoolBudget(1_024 * mebibyte, log);
    expect(budget.full()).toBe(false);
    const [running, ended] = [holder(budget), holder(budget, 1)];
    running.grow(10 * mebibyte);
    ended.grow(mebibyte);
    budget.settled(ended);
    expect(budget.full()).toBe(true);
    expect([running.heldBytes, ended.heldBytes]).toEqual([runningKeep.head + runningKeep.tail, 0]);
    expect(budget.full()).toBe(false);
  });

  test('forgets what a closed session held', async () => {
    const budget = createSpoolBudget(16 * mebibyte, log);
    const [running, ended] = [holder(budget), holder(budget, 1)];
    running.grow(mebibyte);
    ended.grow(mebibyte);
    budget.settled(ended);
    budget.released(running);
    budget.released(ended);
    expect(budget.usedBytes).toBe(0);
  });

  test('never looks twice for what is not there', async () => {
    const budget = createSpoolBudget(16 * mebibyte, log);
    let looks = 0;
    const many = Array.from({ length: 20 }, () => holder(budget));
    for (const each of many) {
      each.trim = () => {
        looks += 1;
      };
      each.grow(mebibyte);
    }
    await turn();
    many[0]?.grow(4_096);
    await turn();
    expect(looks).toBe(0);
    expect(budget.usedBytes).toBe(20 * mebibyte + 4_096);
  });
});
