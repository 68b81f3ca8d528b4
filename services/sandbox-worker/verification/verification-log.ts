import type { VerificationRecord } from '../../../gen/assay/events/v1/records_pb.js';
import { statusWord, verdictWord, verificationOf } from '../../shared/verification/verification-status.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';

/** Puts what becomes of a session's verifications into its log, as long as it lives here. */
export function createVerificationLog(live: () => Iterable<Sandbox>): (record: VerificationRecord) => void {
  return (record) => {
    const { verificationId, sessionId, status, result } = verificationOf(record);
    for (const sandbox of live()) {
      if (sandbox.sessionId !== sessionId || sandbox.project !== record.project) continue;
      sandbox.log.verification({
        $typeName: 'assay.v1.VerificationChanged',
        verificationId,
        status: statusWord(status),
        verdict: verdictWord(result?.verdict),
        passed: result?.passed ?? 0,
        total: result?.total ?? 0,
      });
      return;
    }
  };
}
