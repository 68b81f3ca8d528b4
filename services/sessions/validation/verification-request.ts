import { Assurance } from '../../../gen/assay/v1/types_pb.js';
import {
  type ListVerificationsRequest,
  type RegradeSubmissionRequest,
  type StartVerificationRequest,
  VerificationState,
} from '../../../gen/assay/v1/verification_pb.js';
import { verificationIdShape } from '../verification/verification-id.ts';
import { checkCount, invalid, show } from './field.ts';
import { checkRequestId, checkSessionId } from './identifier.ts';
import { checkSampleFilter } from './sample-request.ts';
import { checkPageSize } from './session-request.ts';

const stateCount = 16;

export function checkStartVerificationRequest(request: StartVerificationRequest): void {
  checkSessionId(request.sessionId);
  checkRequestId(request.requestId);
  if (Assurance[request.requiredAssurance] === undefined) {
    const expected = 'ISOLATED, IN_PROCESS, FORK, SHARED or nothing';
    throw invalid('required_assurance', `found ${request.requiredAssurance}`, expected);
  }
}

export function checkRegradeSubmissionRequest(request: RegradeSubmissionRequest): void {
  checkVerificationId(request.verificationId);
  checkRequestId(request.requestId);
}

export function checkListVerificationsRequest(request: ListVerificationsRequest): void {
  checkPageSize(request.pageSize);
  if (request.sessionId !== '') checkSessionId(request.sessionId);
  if (request.sample !== undefined) checkSampleFilter(request.sample);
  checkCount('states', request.states.length, stateCount);
  for (const state of request.states) {
    if (state === VerificationState.UNSPECIFIED || VerificationState[state] === undefined) {
      throw invalid('states', `found ${state}`, 'states of a verification');
    }
  }
}

export function checkVerificationId(value: string): void {
  if (verificationIdShape.test(value)) return;
  const expected = 'the id that StartVerification returned, ver_ and 26 characters';
  throw invalid('verification_id', `found ${show(value)}`, expected);
}
