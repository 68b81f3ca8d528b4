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
function holder(budget: ReturnType<typeof createSpoolBudget>, endedMs = 0, project = 'p') {
  const holding = {
    project,
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

  test('takes from the project that holds most, whoever ended first', async () => {
    const budget = createSpoolBudget(32 * mebibyte, log);
    const quiet = holder(budget, 1, 'quiet');
    quiet.grow(6 * mebibyte);
    budget.settled(quiet);
    const greedy = [2, 3, 4, 5].map((endedMs) => holder(budget, endedMs, 'greedy'));
    for (const each of greedy) {
      each.grow(7 * mebibyte);
      budget.settled(each);
    }
    await turn();
    expect([quiet, ...greedy].map(({ heldBytes }) => heldBytes / mebibyte)).toEqual([6, 0, 7, 7, 7]);
  });

  test('trims what the greediest project runs before another loses anything', async () => {
    const budget = createSpoolBudget(32 * mebibyte, log);
    const [quiet, ended] = [holder(budget, 0, 'quiet'), holder(budget, 1, 'quiet')];
    quiet.grow(6 * mebibyte);
    ended.grow(4 * mebibyte);
    budget.settled(ended);
    const greedy = [holder(budget, 0, 'greedy'), holder(budget, 0, 'greedy')];
    for (const each of greedy) each.grow(12 * mebibyte);
    await turn();
    const kept = runningKeep.head + runningKeep.tail;
    expect([quiet, ended, ...greedy].map(({ heldBytes }) => heldBytes)).toEqual([
      ...[6 * mebibyte, 4 * mebibyte],
      ...[kept, 12 * mebibyte],
    ]);
  });

  test('is not asked for more by what it gives up, which must be recorded on the same disk', () => {
    const budget = createSpoolBudget(1_024 * mebibyte, log, { patienceMs: 0 });
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

  test('gives up output when the disk is full before the budget is', () => {
    const budget = createSpoolBudget(1_024 * mebibyte, log, { patienceMs: 0 });
    expect(budget.full()).toBe(false);
    const [running, ended] = [holder(budget), holder(budget, 1)];
    running.grow(10 * mebibyte);
    ended.grow(mebibyte);
    budget.settled(ended);
    expect(budget.full()).toBe(true);
    expect([running.heldBytes, ended.heldBytes]).toEqual([runningKeep.head + runningKeep.tail, 0]);
    expect(budget.full()).toBe(false);
  });

  test('gives up nothing for a disk that is full for a moment', () => {
    let ms = 0;
    const budget = createSpoolBudget(1_024 * mebibyte, log, { patienceMs: 30_000, now: () => ms });
    const ended = holder(budget, 1);
    ended.grow(mebibyte);
    budget.settled(ended);
    const fullFor = (seconds: number): boolean[] =>
      Array.from({ length: seconds }, () => {
        ms += 1_000;
        return budget.full();
      });
    expect(fullFor(5)).not.toContain(true);
    ms += 60_000;
    expect(fullFor(29)).not.toContain(true);
    expect(ended.heldBytes).toBe(mebibyte);
    expect(fullFor(2)).toContain(true);
    expect(ended.heldBytes).toBe(0);
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

  test('takes what could not be given up the first time later, and from others meanwhile', async () => {
    const budget = createSpoolBudget(32 * mebibyte, log, { patienceMs: 0 });
    const stuck = Array.from({ length: 40 }, (_, endedMs) => holder(budget, endedMs, 'stuck'));
    const giveUp = stuck.map(({ trim }) => trim);
    let tries = 0;
    for (const each of stuck) {
      each.trim = () => {
        tries += 1;
        throw new Error('no space left on device');
      };
      each.grow(mebibyte / 2);
      budget.settled(each);
    }
    const other = holder(budget, 1, 'other');
    other.grow(10 * mebibyte);
    budget.settled(other);
    expect(budget.full()).toBe(true);
    expect(other.heldBytes).toBe(0);
    expect(tries).toBeLessThan(20);
    stuck.forEach((each, index) => {
      each.trim = giveUp[index] as typeof each.trim;
    });
    while (budget.full());
    expect(budget.usedBytes).toBe(0);
  });
});
