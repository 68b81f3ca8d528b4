import { expect, test } from 'vitest';
import { createSampleValidator, type SampleValidatorDeps } from '../../../services/sessions/sample/validate-sample.ts';

test('a worker is told how often to grade, and for whom', async () => {
  const asked: unknown[] = [];
  const deps = {
    workers: {
      all: () => [{ record: { address: 'a', workerId: 'w', capabilities: ['verification'] }, reachable: true }],
    },
    client: {
      openStream: async (_address: string, _method: unknown, request: unknown) => {
        asked.push(request);
        throw new Error('seen');
      },
    },
    shelf: { provide: async () => {} },
  } as unknown as SampleValidatorDeps;
  const folder = { digests: { content: 'sha256:1' } } as Parameters<ReturnType<typeof createSampleValidator>>[0];
  const news = createSampleValidator(deps)(folder, 'alpha', 3, new AbortController().signal);
  await expect(news.next()).rejects.toThrow('seen');
  expect(asked).toEqual([{ contentDigest: 'sha256:1', project: 'alpha', repetitionCount: 3 }]);
});
