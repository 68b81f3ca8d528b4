import { describe, expect, test } from 'vitest';
import type { CandidateName } from '../../../services/sandbox-worker/validation/candidate.ts';
import { deviationsOf, flakeRate, signatureOf } from '../../../services/sandbox-worker/validation/expectation.ts';
import type { GradedTest, Judgement, Verdict } from '../../../services/shared/verdict/outcome.ts';

const row = (name: string, role: GradedTest['role'], status: GradedTest['status']): GradedTest => ({
  ...{ name, role, status, durationMs: Math.random(), message: '' },
});
const judged = (verdict: Verdict, ...tests: GradedTest[]): Judgement => ({
  ...{ verdict, tests, isSuccess: verdict === 'PASSED', assurance: 'ISOLATED', trainable: true, reward: 0 },
  ...{ counts: { total: 0, passed: 0, failed: 0, skipped: 0 }, reasons: ['because'] },
});

describe('a grading', () => {
  const required = [row('new', 'fail_to_pass', 'failed'), row('old', 'pass_to_pass', 'passed')];

  test('of nothing must fail, in just the tests that it is about', () => {
    expect(deviationsOf('empty', judged('FAILED', ...required, row('trap', 'sentinel_fail', 'failed')))).toEqual([]);
    expect(deviationsOf('empty', judged('PASSED'))).toEqual(['expected FAILED, found PASSED: because']);
    const swapped = [row('new', 'fail_to_pass', 'passed'), row('old', 'pass_to_pass', 'missing')];
    expect(deviationsOf('empty', judged('FAILED', ...swapped))).toEqual([
      'new passes before anything was done',
      'old does not pass before anything was done',
    ]);
  });

  test('of an adversary must not pass, and that is all', () => {
    expect(deviationsOf('adversary: x', judged('PASSED'))).toEqual(['expected any verdict but PASSED']);
    expect(deviationsOf('adversary: x', judged('TAMPERED'))).toEqual([]);
  });

  test.each(['oracle', 'honest'] as const)('of the %s must pass', (name) => {
    expect(deviationsOf(name, judged('PASSED'))).toEqual([]);
    expect(deviationsOf(name, judged('TIMED_OUT'))).toEqual(['expected PASSED, found TIMED_OUT: because']);
  });

  test('is the same as another if verdict and tests are, however long they took', () => {
    const same = [judged('FAILED', ...required), judged('FAILED', ...required.toReversed())].map(signatureOf);
    expect(same[0]).toBe(same[1]);
    expect(signatureOf(judged('FAILED', row('new', 'fail_to_pass', 'error')))).not.toBe(same[0]);
  });
});

test('the flake rate counts what differs from most of its kind', () => {
  const rate = (found: Partial<Record<CandidateName, string[]>>) =>
    flakeRate(new Map(Object.entries(found) as [CandidateName, string[]][]));
  expect(rate({})).toBe(0);
  expect(rate({ empty: ['a', 'a'], oracle: ['b', 'b'] })).toBe(0);
  expect(rate({ empty: ['a', 'b', 'a', 'c'], oracle: ['b', 'b', 'b', 'b'] })).toBe(0.25);
});
