import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import type { ExecutionCgroup } from '../../../services/sandbox-worker/cgroup/execution-cgroup.ts';
import { createSpares } from '../../../services/sandbox-worker/execution/spare.ts';
import { go } from '../../../services/sandbox-worker/guest/frame.ts';

/** A cgroup that takes nobody in. */
const refusing = { place: async () => false } as Partial<ExecutionCgroup> as ExecutionCgroup;

describe('a prepared process that cannot be placed in its cgroup', () => {
  test('is told of, and runs all the same', async () => {
    const unplaced: bigint[] = [];
    const sent: Buffer[] = [];
    const spares = createSpares(() => 1n, {
      cgroups: () => ({ execution: () => refusing, existing: () => undefined }),
      send: (frame) => void sent.push(frame),
      unplaced: (number) => void unplaced.push(number),
    });
    spares.make();
    await turn();
    expect(spares.spawned(1n, 42)).toBe(true);
    expect(spares.take(1n)?.taken).toBe(true);
    await turn();
    expect(unplaced).toEqual([1n]);
    expect(sent.some((frame) => frame.equals(go(1n)))).toBe(true);
    spares.drop();
  });
});
