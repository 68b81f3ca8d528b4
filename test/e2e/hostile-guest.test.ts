import { chmodSync, copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Session } from '../../clients/typescript/index.ts';
import { runDirectory } from '../run.ts';
import { eventually } from './eventually.ts';
import { startTestStack, type TestStack } from './stack.ts';

let stack: TestStack;
let bystander: Session;
const guest = join(runDirectory(), 'hostile-guest');

beforeAll(async () => {
  copyFileSync(join(import.meta.dirname, 'hostile-guest.py'), guest);
  chmodSync(guest, 0o755);
  stack = await startTestStack({ env: { worker: { ASSAY_GUEST_PATH: guest } } });
  bystander = await stack.client.sessions.create({});
});
afterAll(async () => {
  await stack?.stop();
  const { rmSync } = await import('node:fs');
  rmSync(guest, { force: true });
});

/** Resolves with the session once it has ended. */
async function ended(session: Session): Promise<Session['info']> {
  await eventually(async () => expect((await session.refresh()).state).toMatch(/^(CLOSED|FAILED|LOST)$/));
  return session.info;
}

describe.concurrent('a guest in enemy hands', () => {
  test.each([
    ['garbage', /broke the protocol/],
    ['giant', /OUTPUT frame of 4294967295 bytes/],
    ['giant control', /type 9 with 1048576 bytes/],
    ['skip bytes', /offset 10, expected 0/],
    ['repeat bytes', /offset 0, expected 1/],
    ['output before start', /OUTPUT outside of a run/],
    ["another's output", /execution 100, which was never started/],
    ['exit too much', /EXIT before the output it counts/],
    ['closed before exit', /CLOSED before EXIT/],
    ['bad status', /wait status of 127/],
    ['failed after start', /FAILED after STARTED/],
    ['stored more than it is', /called acknowledged/],
    ['second hello', /second HELLO/],
    ['third stream', /stream 3/],
  ])('that does "%s" ends its own session with that reason, and no other', async (attack, message) => {
    const session = await stack.client.sessions.create({});
    const end = await session.run(attack).then(
      ({ reason }) => reason,
      ({ reason }) => reason as string,
    );
    expect(end).toBe('SANDBOX_LOST');
    expect(await ended(session)).toMatchObject({
      state: 'FAILED',
      endReason: 'GUEST_PROTOCOL',
      message: expect.stringMatching(message),
    });
    const fine = await bystander.run('behave');
    expect(String(fine.stdout)).toBe('fine\n');
  });
});
