import type { ServiceImpl } from '@connectrpc/connect';
import type { VerificationService } from '../../../gen/assay/v1/verification_pb.js';
import { isFinal, verificationOf } from '../../shared/verification/verification-state.ts';
import { requireCaller } from '../auth/caller.ts';
import type { SessionDirectory } from '../session/session-directory.ts';
import {
  checkListVerificationsRequest,
  checkRegradeSubmissionRequest,
  checkStartVerificationRequest,
  checkVerificationId,
} from '../validation/verification-request.ts';
import type { VerificationLister } from '../verification/list-verifications.ts';
import type { Regrader } from '../verification/regrade-submission.ts';
import type { VerificationStarter } from '../verification/start-verification.ts';
import type { VerificationDirectory } from '../verification/verification-directory.ts';
import type { VerificationViews } from '../verification/verification-view.ts';
import type { VerificationWatcher } from '../verification/watch-verification.ts';

export interface VerificationServiceDeps {
  readonly verifications: VerificationDirectory;
  readonly sessions: SessionDirectory;
  readonly views: VerificationViews;
  readonly start: VerificationStarter;
  readonly regrade: Regrader;
  readonly list: VerificationLister;
  readonly watch: VerificationWatcher;
  readonly nowMs: () => number;
}

export function createVerificationService(deps: VerificationServiceDeps): ServiceImpl<typeof VerificationService> {
  const { verifications, sessions, views } = deps;
  return {
    async startVerification(request, context) {
      checkStartVerificationRequest(request);
      const { project, grader } = requireCaller(context);
      const record = await deps.start(project, request, context.signal);
      return { verification: await views.whole(record, grader) };
    },
    async getVerification({ verificationId }, context) {
      checkVerificationId(verificationId);
      const { project, grader } = requireCaller(context);
      return { verification: await views.whole(await verifications.fresh(project, verificationId), grader) };
    },
    async listVerifications(request, context) {
      checkListVerificationsRequest(request);
      const { project, grader } = requireCaller(context);
      if (request.sessionId !== '') await sessions.find(project, request.sessionId);
      const { records, nextPageToken } = await deps.list(project, request);
      return { verifications: records.map((record) => views.brief(record, grader)), nextPageToken };
    },
    async *watchVerification({ verificationId }, context) {
      checkVerificationId(verificationId);
      const { project, grader } = requireCaller(context);
      for await (const record of deps.watch(project, verificationId, context.signal)) {
        if (record === undefined) {
          yield { heartbeat: {} };
          continue;
        }
        const final = isFinal(verificationOf(record).state);
        yield { verification: final ? await views.whole(record, grader) : views.brief(record, grader) };
      }
    },
    async cancelVerification({ verificationId }, context) {
      checkVerificationId(verificationId);
      const { project, grader } = requireCaller(context);
      const what = { type: 'cancelRequested', atMs: deps.nowMs() } as const;
      return { verification: views.brief(await verifications.change(project, verificationId, what), grader) };
    },
    async regradeSubmission(request, context) {
      checkRegradeSubmissionRequest(request);
      const { project, grader } = requireCaller(context);
      return { verification: views.brief(await deps.regrade(project, request), grader) };
    },
  };
}
