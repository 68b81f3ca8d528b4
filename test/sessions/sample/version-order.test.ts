import { expect, test } from 'vitest';
import { compareVersions } from '../../../services/sessions/sample/version-order.ts';

test('versions are ordered by their numbers and words', () => {
  const ordered = [
    '0.9',
    '1.0.0-alpha',
    '1.0.0-rc.2',
    '1.0.0-rc.10',
    '1.0.0',
    '1.0.1',
    '1.9.0',
    '1.10.0',
    '2',
    '2.0.1',
  ];
  expect(ordered.toReversed().sort(compareVersions)).toEqual(ordered);
  expect(compareVersions('1.0.0', '1.0.0')).toBe(0);
});
