import { create } from '@bufbuild/protobuf';
import type { VerificationRecord } from '../../../gen/assay/internal/v1/records_pb.js';
import { type VerificationChanged, VerificationChangedSchema } from '../../../gen/assay/v1/session_pb.js';
import { Verdict, type Verification, VerificationState } from '../../../gen/assay/v1/verification_pb.js';

const finalStates = [VerificationState.COMPLETED, VerificationState.ERROR, VerificationState.CANCELLED];

export function isFinal(state: VerificationState): boolean {
  return finalStates.includes(state);
}

/** What the log of its session tells of it. */
export function changeOf(record: VerificationRecord): VerificationChanged {
  const { verificationId, state, result } = verificationOf(record);
  return create(VerificationChangedSchema, {
    verificationId,
    state,
    verdict: result?.verdict ?? Verdict.UNSPECIFIED,
    passedCount: result?.passedCount ?? 0,
    testCount: result?.testCount ?? 0,
  });
}

/** The verification in a record that always has one. */
export function verificationOf(record: VerificationRecord): Verification {
  if (record.verification === undefined) throw new TypeError('a verification record without a verification');
  return record.verification;
}
