import { clone, create } from '@bufbuild/protobuf';
import { type Duration, DurationSchema } from '@bufbuild/protobuf/wkt';
import { TestRole } from '../../../gen/assay/v1/types_pb.js';
import {
  Verdict,
  type Verification,
  type VerificationResult,
  VerificationSchema,
} from '../../../gen/assay/v1/verification_pb.js';

/** What each verdict says to those who may not know the hidden tests. */
const reasons: Readonly<Record<Verdict, string>> = {
  [Verdict.UNSPECIFIED]: '',
  [Verdict.PASSED]: 'every required test passed',
  [Verdict.FAILED]: 'a required test did not pass',
  [Verdict.TAMPERED]: 'the submission interfered with its grading',
  [Verdict.TIMED_OUT]: 'the tests, or the build before them, took longer than the sample allows',
  [Verdict.OUT_OF_MEMORY]: 'the tests, or the build before them, needed more memory than the sample allows',
  [Verdict.INVALID_SUBMISSION]: 'what was changed cannot be taken as a submission',
  [Verdict.SAMPLE_BROKEN]: 'the sample itself cannot be graded',
  [Verdict.INFRA_ERROR]: 'the service failed, which says nothing about the submission',
};

/**
 * The verification without what only graders may know: names, messages and output of hidden tests, sentinels, notes, and
 * what the grading used. Verdict, counts, digests and the duration in whole seconds stay.
 */
export function forAgents(verification: Verification): Verification {
  const shown = clone(VerificationSchema, verification);
  shown.message = '';
  if (shown.result !== undefined) strip(shown.result);
  return shown;
}

function strip(result: VerificationResult): void {
  result.passedTests = [];
  result.failedTests = [];
  result.skippedTests = [];
  result.tests = [];
  result.notes = [];
  // That there are traps is nobody's business but the graders'.
  result.roles = result.roles.filter(({ role }) => role !== TestRole.SENTINEL_FAIL);
  result.stdout = new Uint8Array();
  result.stderr = new Uint8Array();
  result.stdoutOmittedBytes = 0n;
  result.stderrOmittedBytes = 0n;
  result.omittedTestCount = 0;
  // What a program uses while it is graded it can choose, by the inputs that it sees there: figures as fine as these would
  // carry hidden inputs out, some bits with each verification.
  result.steps = [];
  delete result.cpuTime;
  result.peakMemoryBytes = 0n;
  if (result.testDuration !== undefined) result.testDuration = roundedUp(result.testDuration);
  // Why a submission is invalid is about the agent's own files.
  if (result.verdict !== Verdict.INVALID_SUBMISSION) result.reason = reasons[result.verdict];
}

/** In whole seconds. */
function roundedUp({ seconds, nanos }: Duration): Duration {
  return create(DurationSchema, { seconds: seconds + (nanos > 0 ? 1n : 0n) });
}
