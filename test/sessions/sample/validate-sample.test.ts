import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { WorkerRecordSchema } from '../../../gen/assay/internal/v1/records_pb.js';
import { createSampleValidator } from '../../../services/sessions/sample/validate-sample.ts';
import type { WorkerClient } from '../../../services/sessions/worker/worker-client.ts';
import type { KnownWorker } from '../../../services/sessions/worker/worker-directory.ts';
import { readSample } from '../../../services/shared/sample/read-sample.ts';

const folder = await readSample('datasets/examples/hello-fix');
const worker = (address: string, more: { capabilities?: string[]; sessions?: number }): KnownWorker =>
  ({ reachable: true, record: create(WorkerRecordSchema, { address, capacity: 10, ...more }) }) as KnownWorker;

/** The address that is asked to grade, or why none is. */
async function asked(...workers: KnownWorker[]): Promise<string> {
  const validate = createSampleValidator({
    workers: { all: () => workers } as never,
    client: {
      openStream: async (address: string) => {
        throw new Error(address);
      },
    } as unknown as WorkerClient,
    shelf: { provide: async () => {} },
    validations: { get: async () => undefined, put: async () => {} },
    nowMs: () => 0,
  });
  const said = await Array.fromAsync(validate(folder, 'alpha', 1, new AbortController().signal)).catch(
    (error) => error,
  );
  return (said as Error).message;
}

test('a sample is put to the test by a worker that grades, full of sessions or not', async () => {
  const idle = worker('idle', {});
  const full = worker('full', { capabilities: ['verification'], sessions: 10 });
  expect(await asked(idle, full)).toBe('full');
  expect(await asked(idle)).toContain('capability verification');
});
