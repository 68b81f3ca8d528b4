import { timestampMs } from '@bufbuild/protobuf/wkt';
import type { VerificationRecord } from '../../../gen/assay/internal/v1/records_pb.js';
import type { SampleName } from '../../../gen/assay/v1/types_pb.js';
import {
  type ListVerificationsRequest,
  ListVerificationsRequestSchema,
} from '../../../gen/assay/v1/verification_pb.js';
import { verificationOf } from '../../shared/verification/verification-state.ts';
import { requestDigest } from '../session/request-digest.ts';
import type { PageTokens } from '../validation/page-token.ts';
import { checkPageSize } from '../validation/session-request.ts';
import type { VerificationDirectory } from './verification-directory.ts';

export interface VerificationPage {
  readonly records: VerificationRecord[];
  readonly nextPageToken: string;
}

export type VerificationLister = (project: string, request: ListVerificationsRequest) => Promise<VerificationPage>;

/** Newest first. A page goes on after the last one of the page before, whatever was made or ended meanwhile. */
export function createVerificationLister(verifications: VerificationDirectory, tokens: PageTokens): VerificationLister {
  return async (project, request) => {
    const query = queryOf(project, request);
    const after = request.pageToken === '' ? undefined : tokens.open(query, request.pageToken);
    const size = checkPageSize(request.pageSize);
    const matching = (await verifications.ofProject(project))
      .filter((record) => isWanted(record, request))
      .map((record) => ({ record, position: positionOf(record) }))
      .filter(({ position }) => after === undefined || position < after)
      .sort((a, b) => (a.position < b.position ? 1 : -1));
    const page = matching.slice(0, size);
    const last = page.at(-1);
    return {
      records: page.map(({ record }) => record),
      nextPageToken: last === undefined || matching.length <= size ? '' : tokens.make(query, last.position),
    };
  };
}

function isWanted(record: VerificationRecord, request: ListVerificationsRequest): boolean {
  const { sessionId, sample, state } = verificationOf(record);
  return (
    (request.sessionId === '' || request.sessionId === sessionId) &&
    matches(request.sample, sample) &&
    (request.states.length === 0 || request.states.includes(state))
  );
}

/** What is empty matches all. */
function matches(wanted: SampleName | undefined, found: SampleName | undefined): boolean {
  if (wanted === undefined) return true;
  const fields = ['datasetId', 'sampleId', 'version'] as const;
  return fields.every((field) => wanted[field] === '' || wanted[field] === found?.[field]);
}

/** Sorts as text like its time of creation; the id makes it unique. */
function positionOf(record: VerificationRecord): string {
  const { createTime, verificationId } = verificationOf(record);
  const ms = createTime === undefined ? 0 : timestampMs(createTime);
  return `${String(ms).padStart(16, '0')}.${verificationId}`;
}

function queryOf(project: string, request: ListVerificationsRequest): string {
  const bare = { ...request, pageSize: 0, pageToken: '' };
  const digest = requestDigest(ListVerificationsRequestSchema, bare);
  return `verifications ${project} ${Buffer.from(digest).toString('hex')}`;
}
