import { expect, test } from 'vitest';
import type { GradingContainer } from '../../../services/sandbox-worker/grading/grading-container.ts';
import { createValidator, type ValidatorDeps } from '../../../services/sandbox-worker/validation/validator.ts';
import { readSample } from '../../../services/shared/sample/read-sample.ts';

const sample = await readSample('datasets/examples/hello-fix');

/** A validator of samples whose images have the names of the validations, and what it begins; a validation ends with its signal. */
function validatorWith(deps: Partial<ValidatorDeps> = {}) {
  const begun: string[] = [];
  const begins = new Map<string, () => void>();
  const container: Partial<GradingContainer> = {
    upper: '',
    start: async () => {},
    remove: async () => {},
    connect: (signal) =>
      new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true })),
  };
  const given = {
    ...{ slots: 2, sharePercent: 75, perProject: 10, timeoutMs: 60_000 },
    engine: {
      async image(id: string) {
        begun.push(id);
        begins.get(id)?.();
        return { id };
      },
    },
    containers: { create: async () => container },
    withStore: (work: (store: never) => Promise<unknown>) => work({} as never),
    images: { ensure: async (_sample: unknown, project: string) => project },
    defaultLimits: {},
    ...deps,
  };
  const validate = createValidator(given as unknown as ValidatorDeps);
  const ask = (project: string) => {
    const leaving = new AbortController();
    const ended = validate({ sample, project, repetitions: 1, signal: leaving.signal, tell() {} });
    ended.catch(() => {});
    return { ended, leave: () => leaving.abort(new Error('left')) };
  };
  const begin = (project: string): Promise<void> =>
    begun.includes(project) ? Promise.resolve() : new Promise((resolve) => begins.set(project, resolve));
  return { ask, begin, begun };
}

test('no project validates in all slots: a validation of another begins at once', async () => {
  const { ask, begin, begun } = validatorWith();
  const [first, second] = [ask('alpha'), ask('alpha')];
  const other = ask('beta');
  await begin('beta');
  expect(begun).toEqual(['alpha', 'beta']);
  for (const { leave } of [first, second, other]) leave();
  await expect(first.ended).rejects.toThrow('left');
  await expect(second.ended).rejects.toThrow('left');
  await expect(other.ended).rejects.toThrow('left');
});

test('a validation whose image is being built holds up no other', async () => {
  const ensure: ValidatorDeps['images']['ensure'] = async (_, project, __, signal) =>
    project === 'alpha'
      ? new Promise((_resolve, reject) => signal?.addEventListener('abort', () => reject(signal.reason)))
      : project;
  const { ask, begin } = validatorWith({ slots: 1, images: { ensure } });
  const waiting = ask('alpha');
  const other = ask('beta');
  await begin('beta');
  for (const { leave } of [waiting, other]) leave();
  await expect(waiting.ended).rejects.toThrow('left');
  await expect(other.ended).rejects.toThrow('left');
});

test('a project has a number of validations, and is refused more with the limit', async () => {
  const { ask, begin } = validatorWith({ perProject: 2 });
  const asked = [ask('alpha'), ask('alpha')];
  await expect(ask('alpha').ended).rejects.toMatchObject({
    reason: 'VALIDATION_QUOTA',
    message: expect.stringContaining('ASSAY_VALIDATIONS_PER_PROJECT'),
    metadata: { limit: '2' },
  });
  asked.push(ask('beta'));
  await begin('beta');
  for (const { leave } of asked) leave();
  await Promise.allSettled(asked.map(({ ended }) => ended));
});

test('a validation that takes too long ends, and the next one of a single slot begins', async () => {
  const { ask, begin } = validatorWith({ slots: 1, timeoutMs: 100 });
  const long = ask('alpha');
  const other = ask('beta');
  await expect(long.ended).rejects.toMatchObject({
    reason: 'DEADLINE_EXCEEDED',
    message: expect.stringContaining('ASSAY_VALIDATION_SECONDS'),
  });
  await begin('beta');
  await expect(other.ended).rejects.toMatchObject({ reason: 'DEADLINE_EXCEEDED' });
});
