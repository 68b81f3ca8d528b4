import { expect, test } from 'vitest';
import { SessionState } from '../../../gen/assay/v1/session_pb.js';
import { createEndedIndex } from '../../../services/sessions/session/ended-index.ts';

const any = new Set<SessionState>();
const { CLOSED, FAILED } = SessionState;

function indexOf(createdMs: number[], project = 'p') {
  const index = createEndedIndex();
  for (const [at, createMs] of createdMs.entries()) {
    index.add({
      project,
      sessionId: `${project}${at}`,
      createMs,
      place: at + 1,
      bytes: 100,
      state: at % 2 === 0 ? CLOSED : FAILED,
    });
  }
  return index;
}

test('sessions come newest first, in whatever order they ended', () => {
  const index = indexOf([50, 10, 40, 20, 30, 60, 15, 55, 5, 45]);
  const created = index.page('p', Number.POSITIVE_INFINITY, 100, any).map(({ createMs }) => createMs);
  expect(created).toEqual([60, 55, 50, 45, 40, 30, 20, 15, 10, 5]);
  expect(index.page('p', 40, 2, any)).toEqual([
    { createMs: 40, place: 3 },
    { createMs: 30, place: 5 },
  ]);
  expect(index.page('other', 40, 2, any)).toEqual([]);
});

test('a page never parts sessions of the same millisecond', () => {
  const index = indexOf([10, 10, 10, 20, 5]);
  expect(index.page('p', 20, 2, any)).toHaveLength(4);
});

test('states are told apart without a record', () => {
  const index = indexOf([1, 2, 3, 4]);
  expect(index.page('p', 9, 9, new Set([FAILED])).map(({ createMs }) => createMs)).toEqual([4, 2]);
});

test('what goes is what was archived first, and its bytes with it', () => {
  const index = indexOf(Array.from({ length: 1_000 }, (_, i) => 1_000 - i));
  const place = index.cut('p', 25_000);
  expect(place).toBe(251);
  index.dropBefore(place, 'p');
  expect(index.bytesByProject()).toEqual(new Map([['p', 75_000]]));
  expect(index.page('p', 2_000, 1, any)).toEqual([{ createMs: 750, place: 251 }]);
  index.dropBefore(2_000);
  expect(index.bytesByProject()).toEqual(new Map());
});

test('an id that is there is known, and one that went is forgotten', () => {
  const index = indexOf(Array.from({ length: 10_000 }, (_, i) => i));
  expect(Array.from({ length: 10_000 }, (_, i) => index.mayHold(`p${i}`)).every(Boolean)).toBe(true);
  const unknown = Array.from({ length: 10_000 }, (_, i) => index.mayHold(`q${i}`)).filter(Boolean);
  expect(unknown.length).toBeLessThan(10);
  index.dropBefore(9_001);
  expect(index.mayHold('p9500')).toBe(true);
  expect(Array.from({ length: 1_000 }, (_, i) => index.mayHold(`p${i}`)).filter(Boolean).length).toBeLessThan(10);
});
