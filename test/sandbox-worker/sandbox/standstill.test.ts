import { expect, test } from 'vitest';
import { whileStill } from '../../../services/sandbox-worker/sandbox/standstill.ts';

/** A sandbox whose engine and deadlines write down what is asked of them. */
function sandboxWith(engine: Partial<Record<'pause' | 'resume', () => void>>) {
  const asked: string[] = [];
  const ask = (what: 'pause' | 'resume') => async () => {
    asked.push(what);
    engine[what]?.();
  };
  const sandbox = {
    file: { containerId: 'c' },
    paused: false,
    still: false,
    activeMs: 0,
    executions: { freeze: () => void asked.push('freeze'), thaw: () => void asked.push('thaw') },
  };
  const still = () =>
    whileStill({ pause: ask('pause'), resume: ask('resume') } as never, sandbox as never, async () => {
      asked.push('work');
    });
  return { asked, sandbox, still };
}

function refuse(): never {
  throw new Error('no answer');
}

test('a sandbox that the engine does not resume is not taken for one that stands still', async () => {
  const { asked, sandbox, still } = sandboxWith({ resume: refuse });
  await expect(still()).rejects.toThrow('no answer');
  expect(asked.at(-1)).toBe('thaw');
  expect(sandbox.still).toBe(false);
  expect(sandbox.activeMs).toBeGreaterThan(0);
});

test('no deadline runs from before the engine pauses a sandbox until after it has resumed it', async () => {
  const { asked, still } = sandboxWith({});
  await still();
  expect(asked).toEqual(['freeze', 'pause', 'work', 'resume', 'thaw']);
});

test('the deadlines of a sandbox that the engine does not pause run on', async () => {
  const { asked, sandbox, still } = sandboxWith({ pause: refuse });
  await expect(still()).rejects.toThrow('no answer');
  expect(asked).not.toContain('work');
  expect(asked.at(-1)).toBe('thaw');
  expect(sandbox.still).toBe(false);
});
