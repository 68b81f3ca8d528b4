import { expect, test } from 'vitest';
import { runToEnd } from '../../../services/sandbox-worker/grading/command-outcome.ts';
import type { GradingContainer } from '../../../services/sandbox-worker/grading/grading-container.ts';
import type { GuestEnd } from '../../../services/sandbox-worker/grading/guest-commands.ts';
import { createOutputKeeper } from '../../../services/sandbox-worker/grading/kept-output.ts';

const command = { args: ['true'], env: {}, workingDirectory: '/', user: { uid: 0, gid: 0 }, outputBytes: 4_096 };

/** Runs a command of which is heard after so long that it ended after so long. */
function run(heardMs: number, tookMs: number) {
  const exit = { status: 0, durationMicros: tookMs * 1_000 };
  const ended = new Promise((resolve) => {
    setTimeout(() => resolve({ kind: 'ended', exit } as GuestEnd), heardMs).unref();
  });
  const running = { ended, stdout: createOutputKeeper(8), stderr: createOutputKeeper(8) };
  const container = { run: () => running, usage: () => undefined } as unknown as GradingContainer;
  return runToEnd(container, command, 0.1, new AbortController().signal);
}

test('an end that came in time counts, though it was heard of late', async () => {
  expect((await run(150, 90)).end).toEqual({ kind: 'exited', code: 0 });
  expect((await run(150, 130)).end).toEqual({ kind: 'timed_out' });
  expect((await run(10_000, 10)).end).toEqual({ kind: 'timed_out' });
});
