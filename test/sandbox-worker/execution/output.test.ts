import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { createOutput, type OutputDeps } from '../../../services/sandbox-worker/execution/output.ts';
import { minKeptBytes } from '../../../services/sandbox-worker/execution/spool.ts';
import type { Subscription } from '../../../services/sandbox-worker/execution/subscription.ts';
import { runDirectory } from '../../run.ts';

const directory = mkdtempSync(join(runDirectory(), 'output-'));
afterAll(() => rmSync(directory, { recursive: true }));

const common: Omit<OutputDeps, 'path' | 'sendAck'> = {
  keptBytes: minKeptBytes,
  adopted: false,
  readers: new Set(),
  disk: { grew() {}, full: () => false },
  pace: { inTurn: (take) => void take() },
};

test('after a reconnect no more is acknowledged than the guest has repeated, whatever is stored', () => {
  const acks: number[] = [];
  const sendAck = (_: 1 | 2, offset: number) => void acks.push(offset);
  const output = createOutput(1, { ...common, path: () => join(directory, 'one'), sendAck });
  output.take(0, Buffer.from('stored, and not acknowledged'));
  output.recover(0);
  output.take(0, Buffer.from('stored'));
  output.acknowledge();
  // A guest goes on where it is told that all is stored.
  output.take(acks.at(-1) ?? 0, Buffer.from(', and not acknowledged before'));
  output.acknowledge();
  expect(acks).toEqual([6, 35]);
  expect(output.spool.total).toBe(35);
  output.release();
});

test('nothing is acknowledged on a new connection before the guest has said how far the last one brought it', () => {
  const acks: number[] = [];
  const turns: (() => number)[] = [];
  const output = createOutput(1, {
    ...{ ...common, path: () => join(directory, 'three'), sendAck: (_, offset) => void acks.push(offset) },
    pace: { inTurn: (take) => void turns.push(take) },
  });
  output.take(0, Buffer.from('once'));
  output.acknowledge();
  output.disconnected();
  // Its turn comes when the guest is back, and has not spoken.
  turns.shift()?.();
  output.recover(0);
  expect(acks).toEqual([]);
  output.take(0, Buffer.from('once'));
  output.acknowledge();
  turns.shift()?.();
  expect(acks).toEqual([4]);
  output.disconnected();
  output.recover(4);
  output.release();
});

test('output that nobody reads is acknowledged in its turn, and output that is read at once', () => {
  const acks: number[] = [];
  const turns: (() => number)[] = [];
  const reader = { cursor: () => 4, abandoned: () => false } as unknown as Subscription;
  const readers = new Set<Subscription>();
  const output = createOutput(1, {
    ...{ ...common, readers, path: () => join(directory, 'two'), sendAck: (_, offset) => void acks.push(offset) },
    pace: { inTurn: (take) => void turns.push(take) },
  });
  output.take(0, Buffer.from('once'));
  output.acknowledge();
  output.take(4, Buffer.from(' more'));
  output.acknowledge();
  expect([acks, turns.length]).toEqual([[], 1]);
  expect(turns.shift()?.()).toBe(9);
  expect(acks).toEqual([9]);
  output.take(9, Buffer.from(', and more'));
  output.acknowledge();
  readers.add(reader);
  output.acknowledge();
  expect(acks).toEqual([9, 19]);
  // Its turn comes all the same.
  expect(turns.shift()?.()).toBe(0);
  expect(acks).toEqual([9, 19]);
  output.release();
});
