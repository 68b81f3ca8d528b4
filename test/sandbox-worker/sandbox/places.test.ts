import { expect, test } from 'vitest';
import { createPlaces, type Places } from '../../../services/sandbox-worker/sandbox/places.ts';

let made = 0;

/** Takes places for a project until it is refused. Tells how many it got, and why no more. */
function takeAll(places: Places, project: string): { got: number; reason: string | undefined } {
  let got = 0;
  for (; places.refusal(project) === undefined; got++) places.take(`session-${made++}`, project);
  return { got, reason: places.refusal(project)?.reason };
}

test('one project alone gets its share, the next the same share of the rest, and so on', () => {
  const places = createPlaces(200, 75);
  expect(takeAll(places, 'alpha')).toEqual({ got: 150, reason: 'CAPACITY_SHARE' });
  expect(takeAll(places, 'beta')).toEqual({ got: 38, reason: 'CAPACITY_SHARE' });
  expect(takeAll(places, 'gamma')).toEqual({ got: 9, reason: 'CAPACITY_SHARE' });
  expect(takeAll(places, 'delta')).toEqual({ got: 3, reason: 'NO_CAPACITY' });
});

test('what one project gives back another may take', () => {
  const places = createPlaces(8, 50);
  for (const id of ['one', 'two', 'three', 'four']) places.take(id, 'alpha');
  expect(places.refusal('alpha')?.reason).toBe('CAPACITY_SHARE');
  expect(takeAll(places, 'beta').got).toBe(2);
  for (const id of ['one', 'two', 'three', 'three']) places.free(id);
  expect(takeAll(places, 'beta').got).toBe(2);
});

test('a session has one place, however often it is asked for, and one that is there is counted beyond the limits', () => {
  const places = createPlaces(1, 75);
  places.take('one', 'alpha');
  places.take('one', 'alpha');
  expect(() => places.take('two', 'beta')).toThrow('as many as it can');
  places.hold('two', 'beta');
  places.free('one');
  expect(places.refusal('alpha')?.reason).toBe('NO_CAPACITY');
  places.free('two');
  expect(places.refusal('alpha')).toBeUndefined();
});

test('with a share of all a project may take all', () => {
  expect(takeAll(createPlaces(5, 100), 'alpha')).toEqual({ got: 5, reason: 'NO_CAPACITY' });
});
