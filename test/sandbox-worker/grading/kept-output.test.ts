import { expect, test } from 'vitest';
import { createOutputKeeper, joinOutputs } from '../../../services/sandbox-worker/grading/kept-output.ts';

const text = (length: number) => Array.from({ length }, (_, at) => 'abcdefghijklmnopqrstuvwxyz'[at % 26]).join('');

/** What should be kept of a text, said another way. */
function expected(whole: string, limit: number): string {
  if (whole.length <= limit) return whole;
  const head = Math.ceil(limit / 2);
  const tail = limit - head;
  return `${whole.slice(0, head)}\n[${whole.length - limit} bytes left out]\n${whole.slice(whole.length - tail)}`;
}

test.each([2, 7, 10, 64])(
  'the beginning and the end are kept of any length in any pieces, within %i bytes',
  (limit) => {
    for (let length = 0; length < 150; length += 1) {
      for (const piece of [1, 3, limit, 1_000]) {
        const keeper = createOutputKeeper(limit);
        for (let at = 0; at < length; at += piece) keeper.take(Buffer.from(text(length).slice(at, at + piece)));
        const { bytes, totalBytes, truncated } = keeper.kept();
        expect(bytes.toString()).toBe(expected(text(length), limit));
        expect([totalBytes, keeper.totalBytes, truncated]).toEqual([length, length, length > limit]);
      }
    }
  },
);

test('what was given is copied', () => {
  const keeper = createOutputKeeper(100);
  const reused = Buffer.from('first');
  keeper.take(reused);
  reused.write('other');
  expect(keeper.kept().bytes.toString()).toBe('first');
});

test('several are told one after the other', () => {
  const [one, two] = [createOutputKeeper(4), createOutputKeeper(4)];
  one.take(Buffer.from('123456'));
  two.take(Buffer.from('78'));
  const { bytes, ...rest } = joinOutputs([one.kept(), two.kept()]);
  expect([bytes.toString(), rest]).toEqual(['12\n[2 bytes left out]\n5678', { totalBytes: 8, truncated: true }]);
});
