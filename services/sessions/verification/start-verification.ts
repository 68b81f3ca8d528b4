import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { type VerificationRecord, VerificationRecordSchema } from '../../../gen/assay/internal/v1/records_pb.js';
import { type SealSubmissionResponse, WorkerService } from '../../../gen/assay/internal/v1/worker_pb.js';
import type { SessionSample } from '../../../gen/assay/v1/session_pb.js';
import {
  type StartVerificationRequest,
  StartVerificationRequestSchema,
  Verdict,
  VerificationDigestsSchema,
  VerificationResultSchema,
  VerificationState,
} from '../../../gen/assay/v1/verification_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { ExecutionTarget } from '../execution/execution-target.ts';
import { explainError } from '../session/explain-error.ts';
import type { SessionDirectory } from '../session/session-directory.ts';
import { sessionOf } from '../session/session-view.ts';
import type { WorkerClient } from '../worker/worker-client.ts';
import type { WorkerDirectory } from '../worker/worker-directory.ts';
import { knownVerdict, reuse } from './known-verdict.ts';
import type { VerificationDirectory } from './verification-directory.ts';
import type { VerificationOnce } from './verification-once.ts';

export interface VerificationStarterDeps {
  readonly verifications: VerificationDirectory;
  readonly sessions: SessionDirectory;
  readonly workers: WorkerDirectory;
  readonly target: ExecutionTarget;
  readonly client: WorkerClient;
  readonly once: VerificationOnce;
  readonly sealMs: number;
  readonly nowMs: () => number;
}

/** Seals what a session changed and records the verification. The signal ends the wait; what is sealed is dropped then. */
export type VerificationStarter = (
  project: string,
  request: StartVerificationRequest,
  signal: AbortSignal,
) => Promise<VerificationRecord>;

export function createVerificationStarter(deps: VerificationStarterDeps): VerificationStarter {
  const { verifications, sessions, target, client } = deps;

  const sampleOf = async (project: string, sessionId: string): Promise<SessionSample> => {
    const { sample } = sessionOf(await sessions.find(project, sessionId));
    if (sample !== undefined) return sample;
    const message = `session ${sessionId} was made from no sample, so there is nothing to grade it by; create one with a sample`;
    throw new DomainError('NO_SAMPLE', message, { session_id: sessionId });
  };
  const workerOf = async (project: string, sessionId: string): Promise<string> =>
    sessionOf(await sessions.find(project, sessionId)).workerId;
  return (project, request, signal) =>
    deps.once(project, StartVerificationRequestSchema, request, async (verificationId, requestDigest) => {
      const { sessionId, requiredAssurance } = request;
      const sample = await sampleOf(project, sessionId);
      checkOffered(deps.workers);
      const address = await target(project, sessionId);
      const order = { project, sessionId, requiredAssurance };
      const options = { timeoutMs: deps.sealMs, signal };
      const sealed = await client
        .call(address, WorkerService.method.sealSubmission, order, options)
        .catch(async (error) => Promise.reject(await explainError(sessions, project, sessionId, error)));
      const record = pendingRecord(sample, sealed, deps.nowMs());
      Object.assign(record, { project, requestDigest });
      if (sealed.inPlace) record.inPlaceWorkerId = await workerOf(project, sessionId);
      Object.assign(record.verification ?? {}, { verificationId, sessionId });
      if (sealed.violation !== '') return invalidRecord(record, sealed.violation);
      const digests = create(VerificationDigestsSchema, sealed.digests);
      // What a session is like beside its files no digest tells.
      const known =
        request.force || sealed.inPlace ? undefined : knownVerdict(await verifications.ofProject(project), digests);
      return known === undefined ? record : reuse(record, known);
    });
}

/** Without a worker that grades, a submission would wait for ever. One that is away for a moment may come back. */
function checkOffered(workers: WorkerDirectory): void {
  if (workers.all().some(({ record }) => record.capabilities.includes('verification'))) return;
  throw new DomainError('VERIFICATION_NOT_OFFERED', 'no worker grades; start one with the capability verification');
}

function pendingRecord(sample: SessionSample, sealed: SealSubmissionResponse, nowMs: number): VerificationRecord {
  const { digests, submission, assurance } = sealed;
  return create(VerificationRecordSchema, {
    verification: {
      state: VerificationState.PENDING,
      ...(sample.name && { sample: sample.name }),
      assurance,
      createTime: timestampFromMs(nowMs),
      ...(digests && { digests }),
      ...(submission && { submission }),
    },
  });
}

/** There is nothing to grade: the verdict is known when the sealing is. */
function invalidRecord(record: VerificationRecord, violation: string): VerificationRecord {
  const { verification } = record;
  if (verification === undefined) return record;
  verification.state = VerificationState.COMPLETED;
  if (verification.createTime !== undefined) verification.endTime = verification.createTime;
  verification.result = create(VerificationResultSchema, {
    verdict: Verdict.INVALID_SUBMISSION,
    reason: violation,
    assurance: verification.assurance,
    trainable: true,
  });
  return record;
}
