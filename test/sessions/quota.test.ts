import { expect, test } from 'vitest';
import { createQuota } from '../../services/sessions/quota.ts';
import { DomainError } from '../../services/shared/domain-error.ts';

function setUp(limit: number) {
  const found = new Set<string>();
  const quota = createQuota({
    limit,
    idsOf: async () => new Set(found),
    refusal: (count) => new DomainError('SESSION_QUOTA', `${count}`),
  });
  return { found, quota };
}

test('what is seen before its write is answered counts once', async () => {
  const { found, quota } = setUp(2);
  const written = Promise.withResolvers<string>();
  const first = quota('alpha', 'one', () => {
    found.add('one');
    return written.promise;
  });
  expect(await quota('alpha', 'two', async () => found.add('two').size)).toBe(2);
  written.resolve('made');
  expect(await first).toBe('made');
  await expect(quota('alpha', 'three', async () => {})).rejects.toThrow('2');
});

test('a burst does not pass together, other projects are not counted, and what failed gives its place back', async () => {
  const { quota } = setUp(2);
  const fail = async () => Promise.reject(new Error('failed'));
  const ends = await Promise.allSettled(['one', 'two', 'three'].map((id) => quota('alpha', id, fail)));
  expect(ends.map((end) => end.status === 'rejected' && String(end.reason.message))).toEqual(['failed', 'failed', '2']);
  await expect(quota('beta', 'four', async () => 'made')).resolves.toBe('made');
  await expect(quota('alpha', 'five', async () => 'made')).resolves.toBe('made');
});
