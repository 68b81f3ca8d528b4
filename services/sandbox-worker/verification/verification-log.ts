import type { VerificationRecord } from '../../../gen/assay/internal/v1/records_pb.js';
import { changeOf, verificationOf } from '../../shared/verification/verification-state.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';

/** Puts what becomes of a session's verifications into its log, as long as it lives here. */
export function createVerificationLog(live: () => Iterable<Sandbox>): (record: VerificationRecord) => void {
  return (record) => {
    const { sessionId } = verificationOf(record);
    for (const sandbox of live()) {
      if (sandbox.sessionId !== sessionId || sandbox.project !== record.project) continue;
      sandbox.log.verification(changeOf(record));
      return;
    }
  };
}
