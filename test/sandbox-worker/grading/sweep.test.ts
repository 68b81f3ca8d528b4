import { expect, test } from 'vitest';
import {
  createGradingContainers,
  gradingKind,
  kindLabel,
} from '../../../services/sandbox-worker/grading/grading-container.ts';
import { log } from '../docker/scratch-host.ts';

test('a container that cannot be removed keeps a sweep from none of the others', async () => {
  const removed: string[] = [];
  const engine = {
    list: async () => ['stuck', 'left'].map((id) => ({ id, labels: { [kindLabel]: gradingKind } })),
    async remove(id: string) {
      if (id === 'stuck') throw new Error('device or resource busy');
      removed.push(id);
    },
  };
  await createGradingContainers({ engine: engine as never, slots: {} as never, installation: 'i', log }).sweep();
  expect(removed).toEqual(['left']);
});
