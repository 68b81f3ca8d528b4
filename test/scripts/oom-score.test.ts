import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { lowerOomScore } from '../../scripts/setup/process-table.mjs';
import { createChild, serviceOomScore } from '../../scripts/stack/child.mjs';
import { createLogFile } from '../../scripts/stack/log-file.mjs';
import { mayLowerOomScore, readOomScore } from '../oom-score.ts';
import { runDirectory } from '../run.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** A process with a score that any process may take; it has it once it prints. */
async function startWith(score: number): Promise<ChildProcess & { pid: number }> {
  const child = spawn('sh', ['-c', `echo ${score} > /proc/$$/oom_score_adj; echo up; exec sleep 1000`]);
  cleanups.push(() => child.kill('SIGKILL'));
  await once(child.stdout, 'data');
  return child as typeof child & { pid: number };
}

test('the score of a process is lowered, never raised, and a refusal by the kernel changes nothing', async () => {
  const { pid } = await startWith(300);
  lowerOomScore(pid, 100);
  expect(readOomScore(pid)).toBe(100);
  lowerOomScore(pid, 200);
  expect(readOomScore(pid)).toBe(100);
  lowerOomScore(pid, -900);
  expect(readOomScore(pid)).toBe(mayLowerOomScore ? -900 : 100);
});

test('a service that the supervisor starts is protected from the out-of-memory killer, where the kernel permits', () => {
  const directory = mkdtempSync(join(runDirectory(), 'child-'));
  cleanups.push(() => rmSync(directory, { recursive: true }));
  const log = createLogFile(join(directory, 'log'));
  const child = createChild({
    ...{ name: 'sleep', program: 'sleep', args: ['1000'], env: process.env, log },
    terminal: false,
  });
  cleanups.push(async () => {
    await child.halt();
    log.close();
  });
  child.start();
  expect(readOomScore(child.pid)).toBe(mayLowerOomScore ? serviceOomScore : readOomScore('self'));
});
