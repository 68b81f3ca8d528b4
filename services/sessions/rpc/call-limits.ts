import type { DescMethod } from '@bufbuild/protobuf';
import { SessionService } from '../../../gen/assay/v1/session_pb.js';
import { VerificationService } from '../../../gen/assay/v1/verification_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { Limits } from '../config.ts';

/** How long a call with one answer may take. */
export type CallLimits = (method: DescMethod) => number;

export function createCallLimits(limits: Pick<Limits, 'callMs' | 'createMs' | 'buildMs' | 'sealMs'>): CallLimits {
  const more = new Map<DescMethod, number>([
    [SessionService.method.createSession, limits.createMs + limits.buildMs],
    [SessionService.method.forkSession, limits.createMs],
    [VerificationService.method.startVerification, limits.sealMs],
  ]);
  return (method) => limits.callMs + (more.get(method) ?? 0);
}

export function callTimeout(ms: number): DomainError {
  const message = `the call took longer than ${ms / 1_000} s, the limit (ASSAY_LIMIT_CALL_SECONDS); what it began goes on: ask for it again`;
  return new DomainError('DEADLINE_EXCEEDED', message, { limit: String(ms) });
}
