import { expect, test } from 'vitest';
import { createInput } from '../../../services/sandbox-worker/execution/input.ts';
import { inputEnd, input as inputFrame } from '../../../services/sandbox-worker/guest/frame.ts';

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

test('what is written before the execution has a number is sent once it has one', async () => {
  const sent: Buffer[] = [];
  let number = 0n;
  const input = createInput(
    () => number,
    true,
    (frame) => void sent.push(frame),
  );
  const writing = input.write(0, bytes, true);
  await Promise.resolve();
  expect(sent).toEqual([]);
  number = 7n;
  input.recover(0);
  await Promise.resolve();
  expect(sent).toEqual([inputFrame(7n, 0, bytes), inputEnd(7n, 5)]);
  input.acknowledged(5, 5, true, false);
  expect(await writing).toBe(5);
});

test('a write whose caller is gone lets go of its bytes, also behind another, and the next goes on where the guest is', async () => {
  const sent: Buffer[] = [];
  const input = createInput(
    () => 1n,
    true,
    (frame) => void sent.push(frame),
  );
  const first = new AbortController();
  const behind = new AbortController();
  const writing = input.write(0, bytes, false, first.signal);
  const waiting = input.write(0, bytes, false, behind.signal);
  const last = input.write(2, bytes, false);
  await Promise.resolve();
  input.acknowledged(2, 2, false, false);
  const gone = new Error('gone');
  behind.abort(gone);
  await expect(waiting).rejects.toBe(gone);
  first.abort(gone);
  await expect(writing).rejects.toBe(gone);
  await expect.poll(() => sent.length).toBe(2);
  expect(sent).toEqual([inputFrame(1n, 0, bytes), inputFrame(1n, 5, bytes.subarray(3))]);
  input.acknowledged(7, 7, false, false);
  expect(await last).toBe(7);
});
