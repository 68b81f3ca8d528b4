import { create, toBinary } from '@bufbuild/protobuf';
import { describe, expect, test } from 'vitest';
import { type VerificationRecord, VerificationRecordSchema } from '../../../gen/assay/internal/v1/records_pb.js';
import {
  GradingPhase,
  GradingStep,
  Verdict,
  VerificationResultSchema,
  VerificationSchema,
  VerificationState,
} from '../../../gen/assay/v1/verification_pb.js';
import { forAgents } from '../../../services/shared/verification/agent-view.ts';
import { change, type VerificationChange } from '../../../services/shared/verification/verification-change.ts';
import { verificationOf } from '../../../services/shared/verification/verification-state.ts';

const pending = (): VerificationRecord =>
  create(VerificationRecordSchema, {
    project: 'p',
    verification: { verificationId: 'ver_1', state: VerificationState.PENDING },
  });
const claimed = (claim: string, over = ''): VerificationChange => ({
  type: 'claimed',
  claim,
  over,
  workerId: `worker of ${claim}`,
  sequence: 7n,
  atMs: 1_000,
});
const result = create(VerificationResultSchema, { verdict: Verdict.PASSED });
const ended = (claim: string): VerificationChange => ({
  type: 'ended',
  claim,
  error: false,
  result,
  object: 'p/ver_1',
  atMs: 9_000,
});

function changed(record: VerificationRecord, ...changes: VerificationChange[]): VerificationRecord {
  return changes.reduce((now, what) => {
    const next = change(now, what);
    if (next === undefined) throw new Error(`${what.type} changed nothing`);
    return next;
  }, record);
}

describe('a verification', () => {
  test('goes from pending over starting and running to completed', () => {
    const started = changed(pending(), claimed('a'));
    expect(started.verification).toMatchObject({ state: VerificationState.STARTING, attemptCount: 1 });
    const running = changed(started, { type: 'phase', claim: 'a', phase: GradingPhase.RUNNING, running: true });
    expect(running.verification).toMatchObject({ state: VerificationState.RUNNING, phase: GradingPhase.RUNNING });
    const done = changed(running, ended('a'));
    expect(done.verification).toMatchObject({
      state: VerificationState.COMPLETED,
      phase: GradingPhase.UNSPECIFIED,
      result,
    });
    expect(done.resultObject).toBe('p/ver_1');
  });

  test('keeps its end, whatever comes later', () => {
    const done = changed(pending(), claimed('a'), ended('a'));
    for (const late of [claimed('b'), ended('b'), { type: 'cancelRequested', atMs: 1 } as const]) {
      expect(change(done, late), late.type).toBeUndefined();
    }
  });

  test('takes nothing from an attempt that another one has replaced', () => {
    const taken = changed(pending(), claimed('a'), claimed('b', 'a'));
    expect(change(taken, ended('a'))).toBeUndefined();
    expect(change(taken, { type: 'phase', claim: 'a', phase: GradingPhase.RUNNING, running: true })).toBeUndefined();
    expect(change(taken, { type: 'returned', claim: 'a', message: '', counts: true })).toBeUndefined();
    expect(change(taken, claimed('c', 'a'))).toBeUndefined();
    expect(verificationOf(changed(taken, ended('b'))).attemptCount).toBe(2);
  });

  test('is cancelled at once while it waits, and by its worker while it runs', () => {
    const request = { type: 'cancelRequested', atMs: 5 } as const;
    expect(verificationOf(changed(pending(), request)).state).toBe(VerificationState.CANCELLED);
    const running = changed(pending(), claimed('a'), request);
    expect(running.verification).toMatchObject({ state: VerificationState.STARTING, cancelRequested: true });
    expect(verificationOf(changed(running, { type: 'cancelled', atMs: 6 })).state).toBe(VerificationState.CANCELLED);
  });

  test('counts an attempt that failed, and not one that was given back', () => {
    const returned = (counts: boolean) =>
      changed(pending(), claimed('a'), { type: 'returned', claim: 'a', message: 'the engine is away', counts });
    expect(returned(true).verification).toMatchObject({ state: VerificationState.PENDING, attemptCount: 1 });
    expect(returned(false).verification).toMatchObject({ state: VerificationState.PENDING, attemptCount: 0 });
  });
});

test('agents see verdict and counts, and nothing that names a hidden test', () => {
  const whole = create(VerificationResultSchema, {
    verdict: Verdict.FAILED,
    reason: 'fail_to_pass: secret name (failed)',
    testCount: 2,
    failedCount: 1,
    passedTests: ['secret name 2'],
    failedTests: ['secret name'],
    tests: [{ name: 'secret name', message: 'expected the secret name' }],
    notes: ['secret name was noticed'],
    stdout: Buffer.from('secret name'),
    stderr: Buffer.from('secret name'),
  });
  const record = changed(pending(), claimed('a'), { ...ended('a'), result: whole } as VerificationChange);
  const shown = forAgents(verificationOf(record));
  expect(shown.result).toMatchObject({ verdict: Verdict.FAILED, testCount: 2, failedCount: 1 });
  expect(Buffer.from(toBinary(VerificationSchema, shown)).includes('secret')).toBe(false);
});

test('agents see no figure that a graded program could write hidden inputs into', () => {
  const whole = create(VerificationResultSchema, {
    verdict: Verdict.FAILED,
    testDuration: { seconds: 1n, nanos: 234_567 },
    steps: [{ step: GradingStep.RUN, duration: { seconds: 1n, nanos: 234_567 } }],
    cpuTime: { seconds: 1n, nanos: 1 },
    peakMemoryBytes: 123_456_789n,
    omittedTestCount: 7,
  });
  const record = changed(pending(), claimed('a'), { ...ended('a'), result: whole } as VerificationChange);
  const { result } = forAgents(verificationOf(record));
  expect(result).toMatchObject({
    steps: [],
    peakMemoryBytes: 0n,
    omittedTestCount: 0,
    testDuration: { seconds: 2n, nanos: 0 },
  });
  expect(result?.cpuTime).toBeUndefined();
});
