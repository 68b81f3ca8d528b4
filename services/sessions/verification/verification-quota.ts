import { DomainError } from '../../shared/domain-error.ts';
import { isFinal, verificationOf } from '../../shared/verification/verification-state.ts';
import { createQuota, type Quota } from '../quota.ts';
import type { VerificationDirectory } from './verification-directory.ts';

/** Verifications of a project that are under way. */
export function createVerificationQuota(verifications: VerificationDirectory, limit: number): Quota {
  return createQuota({
    limit,
    async idsOf(project) {
      const all = (await verifications.ofProject(project)).map(verificationOf);
      return new Set(all.filter(({ state }) => !isFinal(state)).map(({ verificationId }) => verificationId));
    },
    refusal(count) {
      const message = `the project has ${count} verifications under way, the limit (ASSAY_LIMIT_VERIFICATIONS_PER_PROJECT); wait for one to end, or cancel one`;
      return new DomainError('VERIFICATION_QUOTA', message, { limit: String(limit) });
    },
  });
}
