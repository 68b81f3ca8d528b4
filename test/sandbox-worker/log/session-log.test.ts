import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { createSessionLog } from '../../../services/sandbox-worker/log/session-log.ts';
import { createWorkShares } from '../../../services/shared/work-shares.ts';
import { runDirectory } from '../../run.ts';
import { everything, writeLog } from './written-log.ts';

const directory = mkdtempSync(join(runDirectory(), 'session-log-'));
afterAll(() => rmSync(directory, { recursive: true }));

test('followers that replay a long log let the event loop turn after every slice of work', async () => {
  const log = writeLog(directory);
  for (let number = 1n; number <= 200n; number++) {
    log.start(number);
    log.finish(number);
  }
  // A clock on which every look takes a millisecond: a slice is over at once.
  let ms = 0;
  const shares = createWorkShares({ sliceMs: 1, now: () => ms++ });
  const sessionLog = createSessionLog(log.journal, [], log.source, () => shares.turn('alpha'));
  let told = 0;
  let most = 0;
  let before = 0;
  const look = (): void => {
    most = Math.max(most, told - before);
    before = told;
    watch = setImmediate(look);
  };
  let watch = setImmediate(look);
  const follow = async (): Promise<void> => {
    const query = { ...everything, untilNow: true };
    for await (const _ of sessionLog.follow(query, AbortSignal.timeout(60_000))) told++;
  };
  const followers = 20;
  await Promise.all(Array.from({ length: followers }, follow));
  clearImmediate(watch);
  look();
  clearImmediate(watch);
  expect(told).toBe(followers * 400);
  expect(most).toBeLessThan(2 * followers);
  log.journal.close();
});
