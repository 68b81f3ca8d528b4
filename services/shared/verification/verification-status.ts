import type { VerificationRecord } from '../../../gen/assay/events/v1/records_pb.js';
import { Verdict, type Verification, VerificationStatus } from '../../../gen/assay/v1/verification_pb.js';

/** COMPLETED, ERROR and CANCELLED are final. */
export function isFinal(status: VerificationStatus): boolean {
  return (
    status === VerificationStatus.COMPLETED ||
    status === VerificationStatus.ERROR ||
    status === VerificationStatus.CANCELLED
  );
}

/** The status as one word: `pending`, `starting`, `running`, `completed`, `error` or `cancelled`. */
export function statusWord(status: VerificationStatus): string {
  return VerificationStatus[status].toLowerCase();
}

/** The verdict as one word, such as `PASSED`; empty where there is none. */
export function verdictWord(verdict: Verdict | undefined): string {
  return verdict === undefined || verdict === Verdict.UNSPECIFIED ? '' : Verdict[verdict];
}

/** The verification in a record that always has one. */
export function verificationOf(record: VerificationRecord): Verification {
  if (record.verification === undefined) throw new TypeError('a verification record without a verification');
  return record.verification;
}
