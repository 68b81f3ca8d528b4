import { create } from '@bufbuild/protobuf';
import type { VerificationRecord } from '../../../gen/assay/internal/v1/records_pb.js';
import { type VerificationChanged, VerificationChangedSchema } from '../../../gen/assay/v1/session_pb.js';
import { Verdict, type Verification, VerificationStatus } from '../../../gen/assay/v1/verification_pb.js';

const finalStatuses = [VerificationStatus.COMPLETED, VerificationStatus.ERROR, VerificationStatus.CANCELLED];

export function isFinal(status: VerificationStatus): boolean {
  return finalStatuses.includes(status);
}

/** The status as one word: `pending`, `starting`, `running`, `completed`, `error` or `cancelled`. */
export function statusWord(status: VerificationStatus): string {
  return VerificationStatus[status].toLowerCase();
}

/** Whether a status in one word is final. */
export function isFinalWord(word: string): boolean {
  return finalStatuses.some((status) => statusWord(status) === word);
}

/** The verdict as one word, such as `PASSED`; empty where there is none. */
export function verdictWord(verdict: Verdict | undefined): string {
  return verdict === undefined || verdict === Verdict.UNSPECIFIED ? '' : Verdict[verdict];
}

/** What the log of its session tells of it. */
export function changeOf(record: VerificationRecord): VerificationChanged {
  const { verificationId, status, result } = verificationOf(record);
  return create(VerificationChangedSchema, {
    verificationId,
    status: statusWord(status),
    verdict: verdictWord(result?.verdict),
    passed: result?.passed ?? 0,
    total: result?.total ?? 0,
  });
}

/** The verification in a record that always has one. */
export function verificationOf(record: VerificationRecord): Verification {
  if (record.verification === undefined) throw new TypeError('a verification record without a verification');
  return record.verification;
}
