import { afterAll, beforeAll, describe, test } from 'vitest';
import type { Session } from '../../clients/typescript/index.ts';
import { attack } from './shell-behaviours/attack.ts';
import { background } from './shell-behaviours/background.ts';
import { interruption } from './shell-behaviours/interruption.ts';
import { state } from './shell-behaviours/state.ts';
import { streams } from './shell-behaviours/streams.ts';
import { type Dialect, programs, Subject } from './shell-behaviours/subject.ts';
import { text } from './shell-behaviours/text.ts';
import { startTestStack, type TestStack } from './stack.ts';

const behaviours = [...text, ...state, ...attack, ...streams, ...background, ...interruption];
const dialects = Object.keys(programs) as Dialect[];
let stack: TestStack;
const sessions = {} as Record<Dialect, Session>;

beforeAll(async () => {
  stack = await startTestStack();
  for (const dialect of dialects) {
    sessions[dialect] = await stack.client.sessions.create({ limits: { memoryBytes: 2 ** 29 } });
  }
});
afterAll(async () => {
  await Promise.all(Object.values(sessions).map((session) => session.close()));
  await stack?.stop();
});

// Side by side, because many of them wait.
describe.concurrent.each(dialects)('in %s', (dialect) => {
  test.each(behaviours)('%s', async (_sentence, show) => {
    const session = sessions[dialect];
    await using shell = await session.openShell({ program: programs[dialect] });
    await show(new Subject(dialect, session, shell));
  });
});
