import { clone } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { type VerificationRecord, VerificationRecordSchema } from '../../../gen/assay/internal/v1/records_pb.js';
import {
  GradingPhase,
  type Verification,
  type VerificationResult,
  VerificationState,
} from '../../../gen/assay/v1/verification_pb.js';
import { isFinal, verificationOf } from './verification-state.ts';

/**
 * What can happen to a verification's record. What an attempt does names its claim: an attempt that another one has
 * replaced changes nothing any more.
 */
export type VerificationChange =
  /** `over`: the claim that it takes the place of; a third one that came in between stays. */
  | { type: 'claimed'; claim: string; over: string; workerId: string; sequence: bigint; atMs: number }
  | { type: 'phase'; claim: string; phase: GradingPhase; running: boolean }
  /** The attempt goes back into the queue. One that was given back before it could fail does not count. */
  | { type: 'returned'; claim: string; message: string; counts: boolean }
  | { type: 'ended'; claim: string; error: boolean; result: VerificationResult; object: string; atMs: number }
  | { type: 'cancelRequested'; atMs: number }
  /** Nothing of it runs any more. */
  | { type: 'cancelled'; atMs: number };

/** The record after the change, or undefined where the change comes too late or is made already. */
export function change(record: VerificationRecord, what: VerificationChange): VerificationRecord | undefined {
  const { state } = verificationOf(record);
  if (isFinal(state)) return undefined;
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
      verification.state = VerificationState.STARTING;
      verification.phase = GradingPhase.FETCHING;
      verification.workerId = what.workerId;
      verification.attemptCount += 1;
      verification.startTime = timestampFromMs(what.atMs);
      return;
    case 'phase':
      verification.state = what.running ? VerificationState.RUNNING : VerificationState.STARTING;
      verification.phase = what.phase;
      return;
    case 'returned':
      record.claim = '';
      verification.state = VerificationState.PENDING;
      verification.phase = GradingPhase.UNSPECIFIED;
      verification.message = what.message;
      if (!what.counts) verification.attemptCount -= 1;
      return;
    case 'ended':
      record.resultObject = what.object;
      verification.result = what.result;
      end(record, what.error ? VerificationState.ERROR : VerificationState.COMPLETED, what.atMs);
      return;
    case 'cancelRequested':
      verification.cancelRequested = true;
      // Nobody works on it, and whoever finds its job finds that it has ended.
      if (verification.state === VerificationState.PENDING) end(record, VerificationState.CANCELLED, what.atMs);
      return;
    case 'cancelled':
      end(record, VerificationState.CANCELLED, what.atMs);
  }
}

function end(record: VerificationRecord, state: VerificationState, atMs: number): void {
  const verification = verificationOf(record);
  record.claim = '';
  verification.state = state;
  verification.phase = GradingPhase.UNSPECIFIED;
  verification.endTime = timestampFromMs(atMs);
  if (state !== VerificationState.ERROR) verification.message = '';
}
