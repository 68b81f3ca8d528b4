import type { Judgement } from '../../shared/verdict/outcome.ts';
import { type CandidateName, isAdversary } from './candidate.ts';

/** What is wrong with how a candidate was graded; nothing where it was graded as it must be. */
export function deviationsOf(candidate: CandidateName, judgement: Judgement): string[] {
  const { verdict, reasons, tests } = judgement;
  if (isAdversary(candidate)) return verdict === 'PASSED' ? ['expected any verdict but PASSED'] : [];
  const wanted = candidate === 'empty' ? 'FAILED' : 'PASSED';
  if (verdict !== wanted) return [`expected ${wanted}, found ${verdict}: ${reasons[0] ?? 'no reason is given'}`];
  if (candidate !== 'empty') return [];
  return tests.flatMap(({ name, role, status }) => {
    if (role === 'fail_to_pass' && status === 'passed') return [`${name} passes before anything was done`];
    if (role === 'pass_to_pass' && status !== 'passed') return [`${name} does not pass before anything was done`];
    return [];
  });
}

/** Everything of a grading that must be the same each time. */
export function signatureOf({ verdict, tests }: Judgement): string {
  const outcomes = tests.map(({ name, role, status }) => `${role}\0${name}\0${status}`);
  return [verdict, ...outcomes.sort()].join('\n');
}

/** The share of gradings that differ from what most of their kind came to. */
export function flakeRate(signatures: ReadonlyMap<CandidateName, readonly string[]>): number {
  let different = 0;
  let all = 0;
  for (const found of signatures.values()) {
    const counts = [...Map.groupBy(found, (signature) => signature).values()].map(({ length }) => length);
    different += found.length - Math.max(0, ...counts);
    all += found.length;
  }
  return all === 0 ? 0 : different / all;
}
