import { clone } from '@bufbuild/protobuf';
import { type VerificationRecord, VerificationRecordSchema } from '../../../gen/assay/internal/v1/records_pb.js';
import { Verdict, type VerificationDigests, VerificationState } from '../../../gen/assay/v1/verification_pb.js';
import { verificationOf } from '../../shared/verification/verification-state.ts';

/**
 * What is not told again: where memory, time or the disk ran out, which the limits of the server may have decided. They are
 * in no digest where the sample leaves them to it.
 */
const ofTheLimits: readonly Verdict[] = [Verdict.OUT_OF_MEMORY, Verdict.TIMED_OUT, Verdict.INVALID_SUBMISSION];

/**
 * A record of the project with a verdict on the same submission to the same sample, in the same image: memory, time and
 * variables decide too, and are in no digest but that of the sample's whole content. Only a verdict that is the agent's
 * doing is one: nothing is known where the service or the sample failed.
 */
export function knownVerdict(
  records: readonly VerificationRecord[],
  digests: VerificationDigests,
): VerificationRecord | undefined {
  if (digests.submission === '') return undefined;
  return records.find((record) => {
    const { state, result, reusedFrom, digests: of } = verificationOf(record);
    if (record.inPlaceWorkerId !== '') return false;
    if (state !== VerificationState.COMPLETED || result?.trainable !== true || reusedFrom !== '') return false;
    if (ofTheLimits.includes(result.verdict)) return false;
    return (
      of?.submission === digests.submission &&
      of.fileSystem === digests.fileSystem &&
      of.sample === digests.sample &&
      of.image === digests.image
    );
  });
}

/** Ends a record that was to be PENDING with the verdict of another. */
export function reuse(record: VerificationRecord, known: VerificationRecord): VerificationRecord {
  const next = clone(VerificationRecordSchema, record);
  const verification = verificationOf(next);
  const { verificationId, result, workerId } = verificationOf(clone(VerificationRecordSchema, known));
  next.resultObject = known.resultObject;
  verification.state = VerificationState.COMPLETED;
  verification.reusedFrom = verificationId;
  verification.workerId = workerId;
  if (verification.createTime !== undefined) verification.endTime = verification.createTime;
  if (result !== undefined) {
    result.reused = true;
    verification.result = result;
  }
  return next;
}
