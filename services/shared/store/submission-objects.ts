import { DomainError } from '../domain-error.ts';
import type { Broker } from './broker.ts';
import { createFairObjectBucket } from './fair-object-bucket.ts';
import { type BucketKeeping, createNatsObjectReader } from './nats-object-bucket.ts';

/** Sealed submissions of each project by digest, for every worker to fetch. */
export interface SubmissionObjects {
  /** Whether it is there and will be for a while. */
  has(project: string, digest: string): Promise<boolean>;
  get(project: string, digest: string): Promise<AsyncGenerator<Uint8Array, void> | undefined>;
  /** The signal ends it. Rejects with STORE_FULL where there is no room for it. */
  put(
    project: string,
    digest: string,
    pieces: AsyncIterable<Uint8Array>,
    bytes: number,
    signal?: AbortSignal,
  ): Promise<void>;
}

const bucket = 'assay_submissions';

/** In the object store `assay_submissions`. One that has half its time behind it is stored again when it comes again. */
export async function createNatsSubmissionObjects(broker: Broker, keeping: BucketKeeping): Promise<SubmissionObjects> {
  const objects = await createFairObjectBucket(broker, bucket, keeping);
  return {
    get: (project, digest) => objects.get(nameOf(project, digest)),
    async put(project, digest, pieces, bytes, signal) {
      if (bytes > objects.largestBytes) throw tooLarge(bytes, objects.largestBytes);
      await objects.put(nameOf(project, digest), pieces, bytes, signal);
    },
    async has(project, digest) {
      const storedMs = await objects.storedMs(nameOf(project, digest));
      return storedMs !== undefined && Date.now() - storedMs < keeping.keepMs / 2;
    },
  };
}

/** Whether a submission can still be graded, for those who only ask. */
export function createNatsSubmissionLookup(broker: Broker): (project: string, digest: string) => Promise<boolean> {
  const objects = createNatsObjectReader(broker, bucket);
  return async (project, digest) => (await objects.storedMs(nameOf(project, digest))) !== undefined;
}

function nameOf(project: string, digest: string): string {
  return `${project}/${digest}`;
}

function tooLarge(bytes: number, limit: number): DomainError {
  const message = `the submission has ${bytes} bytes, and the store takes up to ${limit} at once; submit less, or have ASSAY_SUBMISSION_STORE_BYTES raised`;
  return new DomainError('LIMIT_EXCEEDED', message, { limit: String(limit) });
}
