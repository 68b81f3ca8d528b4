import { expect, test } from 'vitest';
import { createInput } from '../../../services/sandbox-worker/execution/input.ts';

const bytes = Buffer.from('exit\n');

test('a write whose bytes were taken succeeds, also if the program ended on them', async () => {
  const input = createInput(
    () => 1n,
    true,
    () => {},
  );
  const writing = input.write(0, bytes, false);
  await Promise.resolve();
  input.acknowledged(5, 5, false, false);
  input.close();
  expect(await writing).toBe(5);
});

test('a write whose bytes were not taken fails with the end of the program', async () => {
  const input = createInput(
    () => 1n,
    true,
    () => {},
  );
  const writing = input.write(0, bytes, false);
  await Promise.resolve();
  input.acknowledged(2, 2, false, false);
  input.close();
  await expect(writing).rejects.toMatchObject({ reason: 'INPUT_NOT_OPEN' });
});

test('an end that was not taken fails with the end of the program', async () => {
  const input = createInput(
    () => 1n,
    true,
    () => {},
  );
  const writing = input.write(0, bytes, true);
  await Promise.resolve();
  input.acknowledged(5, 5, false, true);
  await expect(writing).rejects.toMatchObject({ reason: 'INPUT_NOT_OPEN' });
});
