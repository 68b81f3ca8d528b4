import { clone } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { type VerificationRecord, VerificationRecordSchema } from '../../../gen/assay/internal/v1/records_pb.js';
import {
  type Verification,
  type VerificationResult,
  VerificationStatus,
} from '../../../gen/assay/v1/verification_pb.js';
import { isFinal, verificationOf } from './verification-status.ts';

/**
 * What can happen to a verification's record. What an attempt does names its claim: an attempt that another one has
 * replaced changes nothing any more.
 */
export type VerificationChange =
  /** `over`: the claim that it takes the place of; a third one that came in between stays. */
  | { type: 'claimed'; claim: string; over: string; workerId: string; sequence: bigint; atMs: number }
  | { type: 'phase'; claim: string; phase: string; running: boolean }
  /** The attempt goes back into the queue. One that was given back before it could fail does not count. */
  | { type: 'returned'; claim: string; message: string; counts: boolean }
  | { type: 'ended'; claim: string; error: boolean; result: VerificationResult; object: string; atMs: number }
  | { type: 'cancelRequested'; atMs: number }
  /** Nothing of it runs any more. */
  | { type: 'cancelled'; atMs: number };

/** The record after the change, or undefined where the change comes too late or is made already. */
export function change(record: VerificationRecord, what: VerificationChange): VerificationRecord | undefined {
  const { status } = verificationOf(record);
  if (isFinal(status)) return undefined;
  if ('claim' in what && record.claim !== (what.type === 'claimed' ? what.over : what.claim)) return undefined;
  const next = clone(VerificationRecordSchema, record);
  apply(next, verificationOf(next), what);
  return next;
}

function apply(record: VerificationRecord, verification: Verification, what: VerificationChange): void {
  switch (what.type) {
    case 'claimed':
      record.claim = what.claim;
      record.jobSequence = what.sequence;
      verification.status = VerificationStatus.STARTING;
      verification.phase = 'fetching';
      verification.workerId = what.workerId;
      verification.attempts += 1;
      verification.startTime = timestampFromMs(what.atMs);
      return;
    case 'phase':
      verification.status = what.running ? VerificationStatus.RUNNING : VerificationStatus.STARTING;
      verification.phase = what.phase;
      return;
    case 'returned':
      record.claim = '';
      verification.status = VerificationStatus.PENDING;
      verification.phase = '';
      verification.message = what.message;
      if (!what.counts) verification.attempts -= 1;
      return;
    case 'ended':
      record.resultObject = what.object;
      verification.result = what.result;
      end(record, what.error ? VerificationStatus.ERROR : VerificationStatus.COMPLETED, what.atMs);
      return;
    case 'cancelRequested':
      verification.cancelRequested = true;
      // Nobody works on it, and whoever finds its job finds that it has ended.
      if (verification.status === VerificationStatus.PENDING) end(record, VerificationStatus.CANCELLED, what.atMs);
      return;
    case 'cancelled':
      end(record, VerificationStatus.CANCELLED, what.atMs);
  }
}

function end(record: VerificationRecord, status: VerificationStatus, atMs: number): void {
  const verification = verificationOf(record);
  record.claim = '';
  verification.status = status;
  verification.phase = '';
  verification.endTime = timestampFromMs(atMs);
  if (status !== VerificationStatus.ERROR) verification.message = '';
}
