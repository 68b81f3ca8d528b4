import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { SessionRecordSchema } from '../../../gen/assay/internal/v1/records_pb.js';
import { Assurance } from '../../../gen/assay/v1/types_pb.js';
import { createLocalSubmissionStore } from '../../../services/sandbox-worker/submission/submission-store.ts';
import { createSessionSealer } from '../../../services/sandbox-worker/verification/session-sealer.ts';
import { readSample } from '../../../services/shared/sample/read-sample.ts';
import { runDirectory } from '../../run.ts';

const folder = await readSample('datasets/examples/hello-fix');

/** Seals on a worker with this base image. */
async function seal(baseImage: string, { sample = folder, hasLayers = true } = {}) {
  const sealed = { kind: 'sealed', digest: `sha256:${'1'.repeat(64)}`, imageId: '', bytes: 0, files: 0 } as const;
  const session = { sample: { contentDigest: folder.digests.content } };
  const sealer = createSessionSealer({
    sandboxes: { sealSource: () => ({ containerId: 'c', whileStill: (work) => work() }) },
    records: { get: async () => create(SessionRecordSchema, { session }) },
    samples: { folder: async () => sample },
    images: { builtDigest: (digest) => `${digest} on ${baseImage}` },
    sealer: { seal: async () => ({ ...sealed, deletions: 0, archiveBytes: 0, stillMs: 0, copyMs: 0 }) },
    submissions: () => createLocalSubmissionStore(runDirectory()),
    meter: { stoodStill() {} },
    admission: { checkWork() {} },
    grades: true,
    hasLayers,
  });
  return (await sealer('p', 's', Assurance.UNSPECIFIED)).digests;
}

test('a verdict on one base image is not taken for one on another', async () => {
  const [old, now] = [await seal('base:1'), await seal('base:2')];
  expect(old).toMatchObject({ sample: folder.digests.content, verification: folder.digests.verification });
  expect(old?.image).not.toBe(now?.image);
});

test.each(['FORK', 'SHARED'] as const)('tests at %s are refused by a worker without root', async (assurance) => {
  const { verification } = folder.sample;
  const weak = { ...verification, fail_to_pass: { ...verification.fail_to_pass, assurance } };
  const sample = { ...folder, sample: { ...folder.sample, verification: weak } };
  const refusal = { reason: 'VERIFICATION_NOT_OFFERED', message: expect.stringContaining('root') };
  await expect(seal('base', { sample, hasLayers: false })).rejects.toMatchObject(refusal);
  await expect(seal('base', { hasLayers: false })).resolves.toBeDefined();
});
