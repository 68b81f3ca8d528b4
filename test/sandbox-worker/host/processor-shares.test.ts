import { expect, test } from 'vitest';
import type { ContainerProcessors } from '../../../services/sandbox-worker/cgroup/container-processors.ts';
import type { ContainerCgroups } from '../../../services/sandbox-worker/cgroup/execution-cgroup.ts';
import { createProcessorShares } from '../../../services/sandbox-worker/host/processor-shares.ts';

/** A sandbox whose use a test sets, and whose weight it reads. */
function stand(project: string) {
  const state = { micros: 0, part: 1 };
  const processors: ContainerProcessors = {
    usedMicros: () => state.micros,
    weigh(part) {
      state.part = part;
    },
  };
  return { project, state, cgroups: { processors } as ContainerCgroups };
}

/** Looks once a second; before each look, every sandbox has used so much more. */
function rounds(sandboxes: ReturnType<typeof stand>[]) {
  const shares = createProcessorShares(() => sandboxes);
  let nowMs = 0;
  shares.look(nowMs);
  return (...uses: number[]) => {
    uses.forEach((use, index) => {
      const sandbox = sandboxes[index];
      if (sandbox !== undefined) sandbox.state.micros += use;
    });
    nowMs += 1_000;
    shares.look(nowMs);
    return sandboxes.map(({ state }) => state.part);
  };
}

test('the busy sandboxes of a project share one weight, and a project with one keeps its own', () => {
  const pass = rounds([stand('alpha'), stand('alpha'), stand('alpha'), stand('alpha'), stand('beta')]);
  expect(pass(9, 9, 9, 9, 9)).toEqual([1 / 4, 1 / 4, 1 / 4, 1 / 4, 1]);
});

test('sandboxes that do next to nothing take no weight from the one that works', () => {
  const pass = rounds([stand('alpha'), stand('alpha'), stand('alpha'), stand('beta')]);
  expect(pass(100_000, 50, 50, 9)).toEqual([1, 1, 1, 1]);
});

test('sandboxes that rest every other second stay light, and are heavy again ten seconds after the last', () => {
  const pass = rounds([stand('alpha'), stand('alpha'), stand('beta')]);
  expect(pass(9, 9, 9)).toEqual([1 / 2, 1 / 2, 1]);
  for (let second = 0; second < 9; second++) expect(pass(9, 0, 9)).toEqual([1 / 2, 1 / 2, 1]);
  expect(pass(9, 0, 9)).toEqual([1, 1, 1]);
});

test('sandboxes that live for a second count for their project, and a new one has its weight at once', () => {
  const first = ['alpha', 'alpha', 'alpha', 'alpha'].map(stand);
  let live = [stand('beta')];
  const shares = createProcessorShares(() => live);
  shares.look(0);
  for (const sandbox of first) sandbox.state.micros = 9;
  live = [...live, ...first];
  shares.look(1_000);
  const next = stand('alpha');
  live = [...live.slice(0, 1), next];
  shares.look(1_200);
  expect([...live, ...first].map(({ state }) => state.part)).toEqual([1, 1 / 4, 1 / 4, 1 / 4, 1 / 4, 1 / 4]);
});
