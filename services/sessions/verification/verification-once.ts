import type { DescMessage, MessageShape } from '@bufbuild/protobuf';
import type { VerificationRecord } from '../../../gen/assay/internal/v1/records_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { JobQueue } from '../../shared/store/job-queue.ts';
import { isFinal, verificationOf } from '../../shared/verification/verification-state.ts';
import type { Quota } from '../quota.ts';
import { requestDigest } from '../session/request-digest.ts';
import type { VerificationDirectory } from './verification-directory.ts';
import { verificationIdOf } from './verification-id.ts';

/** Makes the record of a request and queues its job, or finds what the same request id made before. */
export type VerificationOnce = <Desc extends DescMessage>(
  project: string,
  schema: Desc,
  request: MessageShape<Desc> & { readonly requestId: string },
  make: (verificationId: string, requestDigest: Uint8Array) => Promise<VerificationRecord>,
) => Promise<VerificationRecord>;

export interface VerificationOnceDeps {
  readonly verifications: VerificationDirectory;
  readonly quota: Quota;
  readonly queue: JobQueue;
  /** Told of a job that could not be queued: the record is there, so it is queued later. */
  readonly onUnqueued: (error: unknown, verificationId: string) => void;
}

export function createVerificationOnce(deps: VerificationOnceDeps): VerificationOnce {
  const { verifications, quota, queue } = deps;
  return async (project, schema, request, make) => {
    const named = request.requestId !== '';
    const verificationId = verificationIdOf(project, request.requestId);
    const digest = named ? requestDigest(schema, request) : new Uint8Array();
    const earlier = named ? await verifications.get(project, verificationId) : undefined;
    if (earlier !== undefined) return checkSame(earlier, digest);
    const made = await quota(project, verificationId, async () =>
      verifications.create(await make(verificationId, digest)),
    );
    if (made === undefined) return checkSame(await verifications.fresh(project, verificationId), digest);
    if (!isFinal(verificationOf(made).state)) {
      const { inPlaceWorkerId } = made;
      await queue
        .publish(project, verificationId, inPlaceWorkerId)
        .catch((error) => deps.onUnqueued(error, verificationId));
    }
    return made;
  };
}

function checkSame(found: VerificationRecord, digest: Uint8Array): VerificationRecord {
  if (Buffer.compare(found.requestDigest, digest) === 0) return found;
  const id = verificationOf(found).verificationId;
  const message = `request_id: another request made verification ${id} with it; choose a new request_id`;
  throw new DomainError('REQUEST_ID_REUSED', message, { field: 'request_id', verification_id: id });
}
