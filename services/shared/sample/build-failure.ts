import { DomainError } from '../domain-error.ts';

/**
 * What everybody may know of a build that failed. The rest of the message tells where the code comes from, and what of it
 * was taken back: where the fix is.
 */
export function briefly(error: unknown): unknown {
  if (!(error instanceof DomainError) || error.reason !== 'IMAGE_BUILD_FAILED') return error;
  const { dataset, sample_id } = error.metadata;
  const sample = `${dataset}/${sample_id}`;
  const message = `the image of ${sample} cannot be built; a key with the grader scope sees why: assay samples build ${sample}`;
  return new DomainError(error.reason, message, error.metadata);
}
