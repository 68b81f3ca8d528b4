import { clone } from '@bufbuild/protobuf';
import type { VerificationRecord } from '../../../gen/assay/internal/v1/records_pb.js';
import { type Verification, VerificationSchema } from '../../../gen/assay/v1/verification_pb.js';
import type { ResultReader } from '../../shared/store/result-store.ts';
import { forAgents } from '../../shared/verification/agent-view.ts';
import { verificationOf } from '../../shared/verification/verification-state.ts';

/** Verifications as callers see them: `grader` says whether this one may know what only graders may. */
export interface VerificationViews {
  /** Without tests and output. */
  brief(record: VerificationRecord, grader: boolean): Verification;
  /** With all that is kept of its result. */
  whole(record: VerificationRecord, grader: boolean): Promise<Verification>;
}

export function createVerificationViews(results: ResultReader): VerificationViews {
  const brief = (record: VerificationRecord, grader: boolean): Verification =>
    grader ? verificationOf(record) : forAgents(verificationOf(record));
  return {
    brief,
    async whole(record, grader) {
      // What an agent's key may see is in the record.
      if (!grader || record.resultObject === '') return brief(record, grader);
      const result = await results.get(record.resultObject);
      const verification = clone(VerificationSchema, verificationOf(record));
      if (result === undefined) {
        verification.message = 'tests and output are not kept any more';
        return verification;
      }
      result.reused = verification.result?.reused === true;
      verification.result = result;
      return verification;
    },
  };
}
