import { expect, test } from 'vitest';
import { fairLossOf } from '../../../services/shared/store/fair-share.ts';

const lossOf = (held: Record<string, number>, needed: number) =>
  Object.fromEntries(fairLossOf(new Map(Object.entries(held)), needed));

test.each([
  ['the one that holds most gives first', { a: 10, b: 6, c: 2 }, 3, { a: 3 }],
  ['those above the level give down to it', { a: 10, b: 6, c: 2 }, 6, { a: 5, b: 1 }],
  ['equals give alike', { a: 5, b: 5 }, 4, { a: 2, b: 2 }],
  ['nobody gives more than it has', { a: 3, b: 1 }, 9, { a: 3, b: 1 }],
  ['nobody has anything', {}, 9, {}],
])('%s', (_title, held, needed, loss) => {
  expect(lossOf(held, needed)).toEqual(loss);
});
