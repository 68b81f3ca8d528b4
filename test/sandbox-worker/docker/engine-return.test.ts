import { expect, test } from 'vitest';
import { engineFailed } from '../../../services/sandbox-worker/docker/engine-failure.ts';
import { createAcrossRestarts } from '../../../services/sandbox-worker/docker/engine-return.ts';

/** Work that fails with each of these in turn, then succeeds. */
function failingWith(...errors: Error[]) {
  const state = { tries: 0 };
  const work = async (): Promise<string> => {
    const error = errors[state.tries++];
    if (error !== undefined) throw engineFailed('starting a container', error);
    return 'made';
  };
  return { state, work };
}

const gone = () =>
  Object.assign(new Error("ENOENT: no such file or directory, statfs '/proc/1/root'"), { code: 'ENOENT' });
const across = createAcrossRestarts(async () => 'OK');

test('a container whose first process a restart of the engine took is made again', async () => {
  const { state, work } = failingWith(gone(), gone());
  expect(await across(work)).toBe('made');
  expect(state.tries).toBe(3);
});

test('what keeps failing without a word of the engine fails in the end', async () => {
  const { state, work } = failingWith(gone(), gone(), gone(), gone());
  await expect(across(work)).rejects.toMatchObject({
    reason: 'ENGINE_FAILED',
    message: expect.stringContaining('ENOENT'),
  });
  expect(state.tries).toBe(3);
});

test('what the engine refuses is not tried again', async () => {
  const { state, work } = failingWith(Object.assign(new Error('no such image'), { statusCode: 404 }));
  await expect(across(work)).rejects.toMatchObject({ reason: 'ENGINE_FAILED' });
  expect(state.tries).toBe(1);
});
