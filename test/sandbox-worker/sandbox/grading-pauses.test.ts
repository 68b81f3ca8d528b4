import { beforeEach, expect, test } from 'vitest';
import { PauseReason } from '../../../gen/assay/v1/session_pb.js';
import { createGradingPauses, type GradingPauses } from '../../../services/sandbox-worker/sandbox/grading-pauses.ts';

let seconds: number;
let pauses: GradingPauses;
beforeEach(() => {
  seconds = 1_000;
  pauses = createGradingPauses(() => seconds * 1_000);
});

test('the sessions of a project stand still from its first grading to the end of its last, those of others run', () => {
  const ends = [pauses.begin('p'), pauses.begin('p')];
  expect(pauses.holdFor('p')?.pauseReason).toBe(PauseReason.GRADING);
  expect(pauses.holdFor('q')).toBeUndefined();
  ends[0]?.();
  ends[0]?.();
  expect(pauses.holdFor('p')).toBeDefined();
  ends[1]?.();
  expect(pauses.holdFor('p')).toBeUndefined();
});

test('a grading joins the pause of another for half a minute, and not later', () => {
  pauses.begin('p');
  seconds += 29;
  expect(pauses.admits('p')).toBe(true);
  seconds += 2;
  expect(pauses.admits('p')).toBe(false);
  expect(pauses.admits('q')).toBe(true);
});

test.each([
  ['a second at least', 0.1, 1],
  ['for as long as they stood still', 20, 20],
  ['a minute at most', 3_600, 60],
])('between two pauses sessions run %s', (_, lastsSeconds, runSeconds) => {
  const end = pauses.begin('p');
  seconds += lastsSeconds;
  end();
  expect(pauses.admits('p')).toBe(false);
  expect(pauses.waitMs('p')).toBeCloseTo(runSeconds * 1_000);
  seconds += runSeconds;
  expect(pauses.admits('p')).toBe(true);
  expect(pauses.waitMs('p')).toBe(0);
});

test('gradings that never stop coming leave the sessions at least half of the time', () => {
  let stoodStill = 0;
  let ran = 0;
  let running: { end: () => void; until: number }[] = [];
  for (const last = seconds + 600; seconds < last; seconds += 0.5) {
    for (const each of running) if (each.until <= seconds) each.end();
    running = running.filter(({ until }) => until > seconds);
    while (running.length < 4 && pauses.admits('p')) running.push({ end: pauses.begin('p'), until: seconds + 3 });
    if (pauses.holdFor('p') === undefined) ran += 1;
    else stoodStill += 1;
  }
  expect(ran).toBeGreaterThan(stoodStill * 0.9);
});
