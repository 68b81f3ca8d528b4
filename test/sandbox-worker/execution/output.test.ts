import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { createOutput } from '../../../services/sandbox-worker/execution/output.ts';
import { minKeptBytes } from '../../../services/sandbox-worker/execution/spool.ts';
import { runDirectory } from '../../run.ts';

const directory = mkdtempSync(join(runDirectory(), 'output-'));
afterAll(() => rmSync(directory, { recursive: true }));

test('after a reconnect no more is acknowledged than the guest has repeated, whatever is stored', () => {
  const acks: number[] = [];
  const disk = { grew() {}, full: () => false };
  const sendAck = (_: 1 | 2, offset: number) => void acks.push(offset);
  const output = createOutput(1, join(directory, 'one'), minKeptBytes, false, new Set(), sendAck, disk);
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
