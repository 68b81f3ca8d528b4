import { expect, test } from 'vitest';
import { readWorkerConfig, workerConfig } from '../../services/sandbox-worker/config.ts';
import { bucketSpecs } from '../../services/shared/store/bucket-spec.ts';

const kept = ['ASSAY_TRANSCRIPT_KEEP_SECONDS', 'ASSAY_RESULT_KEEP_SECONDS', 'ASSAY_SUBMISSION_KEEP_SECONDS'] as const;

test.each(kept)('%s is at most as long as the record is kept that leads to it', (name) => {
  const setting = workerConfig.shape[name];
  const seconds = bucketSpecs.assay_sessions.maxAgeMs / 1_000;
  expect(setting.safeParse(String(seconds)).success).toBe(true);
  expect(setting.safeParse(String(seconds + 1)).success).toBe(false);
});

test('records of verifications are kept as long as those of their sessions', () => {
  expect(bucketSpecs.assay_verifications.maxAgeMs).toBe(bucketSpecs.assay_sessions.maxAgeMs);
});

const required = Object.fromEntries(
  Object.entries(workerConfig.shape).flatMap(([name, setting]) =>
    setting.safeParse(undefined).success ? [] : [[name, 'x']],
  ),
);

test.each([
  ['ASSAY_DEFAULT_CPUS', 'ASSAY_LIMIT_CPUS', 2, 1],
  ['ASSAY_DEFAULT_MEMORY_BYTES', 'ASSAY_LIMIT_MEMORY_BYTES', 2 ** 29, 2 ** 28],
  ['ASSAY_DEFAULT_DISK_BYTES', 'ASSAY_LIMIT_DISK_BYTES', 2 ** 29, 2 ** 28],
  ['ASSAY_DEFAULT_PIDS', 'ASSAY_LIMIT_PIDS', 128, 64],
  ['ASSAY_OUTPUT_KEPT_BYTES', 'ASSAY_LIMIT_OUTPUT_KEPT_BYTES', 2 ** 23, 2 ** 22],
] as const)('%s is lowered to %s, unless both are set and contradict', (name, limit, more, less) => {
  expect(readWorkerConfig({ ...required, [limit]: String(less) })[name]).toBe(less);
  expect(readWorkerConfig({ ...required, [name]: String(less), [limit]: String(more) })[name]).toBe(less);
  expect(() => readWorkerConfig({ ...required, [name]: String(more), [limit]: String(less) })).toThrow(
    `${name}: expected at most ${limit}, ${less} (found: "${more}")`,
  );
});

test.each(['nonsense', '10.0.0.5', '10.0.0.5:0', 'http://10.0.0.5:7071'])(
  'a worker does not start with %s for its address',
  (address) => {
    const advertised = (text: string) => readWorkerConfig({ ...required, ASSAY_WORKER_ADVERTISE: text });
    expect(() => advertised(address)).toThrow('ASSAY_WORKER_ADVERTISE: expected host:port, such as 10.0.0.5:7071');
    expect(advertised('worker-1.example:7071').ASSAY_WORKER_ADVERTISE).toBe('worker-1.example:7071');
  },
);
