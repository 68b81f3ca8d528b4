import { clone, create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { type VerificationRecord, VerificationRecordSchema } from '../../../gen/assay/internal/v1/records_pb.js';
import {
  type RegradeSubmissionRequest,
  RegradeSubmissionRequestSchema,
  type Verification,
  VerificationSchema,
  VerificationState,
} from '../../../gen/assay/v1/verification_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import { verificationOf } from '../../shared/verification/verification-state.ts';
import type { ContentProvider } from '../sample/provide-content.ts';
import type { VerificationDirectory } from './verification-directory.ts';
import type { VerificationOnce } from './verification-once.ts';

export interface RegraderDeps {
  readonly verifications: VerificationDirectory;
  readonly once: VerificationOnce;
  /** Whether a submission is still kept. */
  readonly isKept: (project: string, digest: string) => Promise<boolean>;
  readonly provide: ContentProvider;
  readonly nowMs: () => number;
}

/** Grades a kept submission again. Its verdict is never a reused one. */
export type Regrader = (project: string, request: RegradeSubmissionRequest) => Promise<VerificationRecord>;

export function createRegrader({ verifications, once, isKept, provide, nowMs }: RegraderDeps): Regrader {
  return async (project, request) => {
    const record = await verifications.fresh(project, request.verificationId);
    const earlier = verificationOf(record);
    if (record.inPlaceWorkerId !== '') throw gradedInPlace(earlier);
    return once(project, RegradeSubmissionRequestSchema, request, async (verificationId, requestDigest) => {
      const { digests, submission, sessionId, sample, assurance } = clone(VerificationSchema, earlier);
      const digest = digests?.submission ?? '';
      const needed = [digest, digests?.fileSystem ?? ''].filter((each) => each !== '');
      const kept = await Promise.all(needed.map((each) => isKept(project, each)));
      if (digest === '' || kept.includes(false)) throw notKept(earlier.verificationId, digest);
      await provide(sample?.datasetId ?? '', sample?.sampleId ?? '', digests?.sample ?? '');
      return create(VerificationRecordSchema, {
        project,
        requestDigest,
        verification: {
          ...{ verificationId, sessionId, assurance },
          ...(sample && { sample }),
          state: VerificationState.PENDING,
          regradeOf: earlier.verificationId,
          createTime: timestampFromMs(nowMs()),
          ...(digests && { digests }),
          ...(submission && { submission }),
        },
      });
    });
  };
}

function gradedInPlace({ verificationId, sessionId }: Verification): DomainError {
  const message = `verification ${verificationId} ran tests in session ${sessionId} itself (SHARED), which no submission holds; start another one on the session while it is open`;
  return new DomainError('GRADED_IN_PLACE', message, { verification_id: verificationId, session_id: sessionId });
}

function notKept(verificationId: string, digest: string): DomainError {
  const why =
    digest === '' ? 'it had none that could be taken' : 'it is not kept any more, being too old or one too many';
  const message = `verification ${verificationId} has no submission to grade again: ${why}; start another one on its session while that is open`;
  return new DomainError('SUBMISSION_NOT_FOUND', message, { verification_id: verificationId });
}
