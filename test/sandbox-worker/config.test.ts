import { expect, test } from 'vitest';
import { workerConfig } from '../../services/sandbox-worker/config.ts';
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
