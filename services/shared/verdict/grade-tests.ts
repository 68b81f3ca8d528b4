import { type RoleName, roleNames } from '../sample/verification-schema.ts';
import type { GradedTest, Grading, ReportedTest, RunOutcome } from './outcome.ts';

const severity = ['error', 'failed', 'skipped', 'passed'] as const;

/**
 * Every test with its role: those that the sample names in its order, then the others. A test counts only in a run of its
 * role, so that a run with less assurance cannot speak for one with more; where it is told of twice the worse counts.
 */
export function gradeTests({ roles, runs }: Grading): GradedTest[] {
  const graded: GradedTest[] = [];
  const named = new Set<string>();
  for (const role of roleNames) {
    const reported = mergeRuns(runs.filter((run) => run.roles.includes(role)));
    for (const name of roles[role]?.tests ?? []) {
      named.add(name);
      graded.push(gradeOne(name, role, reported.get(name)));
    }
  }
  for (const test of mergeRuns(runs).values()) {
    if (!named.has(test.name)) graded.push({ ...test, role: undefined });
  }
  return graded;
}

function gradeOne(name: string, role: RoleName, found: ReportedTest | undefined): GradedTest {
  if (found === undefined) return { name, status: 'missing', role, durationMs: undefined, message: 'in no report' };
  return { ...found, role };
}

function mergeRuns(runs: readonly RunOutcome[]): Map<string, ReportedTest> {
  const merged = new Map<string, ReportedTest>();
  for (const test of runs.flatMap((run) => run.tests)) {
    const before = merged.get(test.name);
    if (before === undefined || severity.indexOf(test.status) < severity.indexOf(before.status)) {
      merged.set(test.name, test);
    }
  }
  return merged;
}
