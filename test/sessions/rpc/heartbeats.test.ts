import { expect, test } from 'vitest';
import { withHeartbeats } from '../../../services/sessions/rpc/heartbeats.ts';

test('a source that is silent is told as alive, and nothing of it is lost', async () => {
  const gate = Promise.withResolvers<void>();
  async function* source() {
    yield 'first';
    await gate.promise;
    yield 'second';
  }
  const seen: string[] = [];
  for await (const each of withHeartbeats(source(), () => 'alive', 1)) {
    seen.push(each);
    if (seen.filter((word) => word === 'alive').length === 2) gate.resolve();
  }
  expect(seen[0]).toBe('first');
  expect(seen.slice(1, 3)).toEqual(['alive', 'alive']);
  expect(seen.at(-1)).toBe('second');
});

test('what a source fails with comes through', async () => {
  // biome-ignore lint/correctness/useYield: it fails before there is anything to yield
  async function* source(): AsyncGenerator<string> {
    throw new Error('broken');
  }
  await expect(Array.fromAsync(withHeartbeats(source(), () => 'alive'))).rejects.toThrow('broken');
});
