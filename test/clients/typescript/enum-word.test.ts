import { expect, test } from 'vitest';
import { enumValue } from '../../../clients/typescript/enum-word.ts';
import { Assurance } from '../../../gen/assay/v1/types_pb.js';

test('a word of the API has its value', () => {
  expect(enumValue(Assurance, 'ISOLATED', 'requiredAssurance')).toBe(Assurance.ISOLATED);
});

test.each(['STRONGEST', 'isolated', 'UNSPECIFIED', '1', 'constructor'])(
  '%s is none, and is refused with those that are',
  (word) => {
    const give = () => enumValue(Assurance, word as 'ISOLATED', 'requiredAssurance');
    expect(give).toThrow(`requiredAssurance: found "${word}"; expected `);
    expect(give).toThrow('ISOLATED');
  },
);
