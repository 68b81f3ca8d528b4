import { DomainError } from '../../shared/domain-error.ts';
import { isFinal, verificationOf } from '../../shared/verification/verification-status.ts';
import type { VerificationDirectory } from './verification-directory.ts';

/** Does what makes a verification, if the project may have one more under way. */
export type VerificationQuota = <T>(project: string, make: () => Promise<T>) => Promise<T>;

export function createVerificationQuota(verifications: VerificationDirectory, limit: number): VerificationQuota {
  /** Between their check and their record, so that a burst does not pass the quota together. */
  const arriving = new Map<string, number>();
  return async (project, make) => {
    const records = await verifications.ofProject(project);
    // No await between the count and the claim: of two that come together the second sees the first.
    const live = records.filter((record) => !isFinal(verificationOf(record).status)).length;
    const others = arriving.get(project) ?? 0;
    if (live + others >= limit) throw quotaError(live + others, limit);
    arriving.set(project, others + 1);
    try {
      return await make();
    } finally {
      const rest = (arriving.get(project) ?? 1) - 1;
      if (rest > 0) arriving.set(project, rest);
      else arriving.delete(project);
    }
  };
}

function quotaError(count: number, limit: number): DomainError {
  const message = `the project has ${count} verifications under way, the limit (verifications_per_project); wait for one to end, or cancel one`;
  return new DomainError('VERIFICATION_QUOTA', message, { limit: String(limit) });
}
