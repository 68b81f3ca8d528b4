import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { exitStatusRow } from '../../services/sandbox-worker/report/exit-status.ts';
import { parseReport } from '../../services/sandbox-worker/report/parse-report.ts';
import { defaultReportLimits, type TestRow } from '../../services/sandbox-worker/report/test-row.ts';
import { entriesBelow } from '../../services/shared/sample/digest.ts';
import type { SampleFolder } from '../../services/shared/sample/read-sample.ts';
import { type PlannedRun, planRuns } from '../../services/shared/sample/run-plan.ts';
import type { Command } from '../../services/shared/sample/verification-schema.ts';
import { judge } from '../../services/shared/verdict/judge.ts';
import type { Judgement, RunEnd, RunOutcome } from '../../services/shared/verdict/outcome.ts';
import { type Graded, gradeInContainer, type PlacedFile } from '../runner/grading-container.ts';

/** Grades a change to the workspace, made by shell text of the agent's, with the sample's own tests. */
export async function gradeSample(folder: SampleFolder, image: string, change: string): Promise<Judgement> {
  const { sample } = folder;
  const { verification } = sample;
  const runs: RunOutcome[] = [];
  let prepare: RunEnd | undefined;
  for (const run of planRuns(verification)) {
    const graded = await gradeInContainer({
      image,
      workspace: sample.environment.workdir,
      files: [...hiddenTests(folder), ...oraclePatch(folder)],
      prepare: [change, verification.prepare ? shellText(verification.prepare.command) : 'true'].join('\n'),
      command: shellText(run.command),
    });
    if (graded.prepareCode !== 0) prepare = { kind: 'exited', code: graded.prepareCode ?? 1 };
    runs.push(outcomeOf(run, graded));
  }
  const { fail_to_pass, pass_to_pass, sentinel_fail } = verification;
  return judge({
    roles: { fail_to_pass, ...(pass_to_pass && { pass_to_pass }), ...(sentinel_fail && { sentinel_fail }) },
    reward: verification.reward.from,
    findings: [],
    prepare,
    runs: prepare === undefined ? runs : [],
    sampleProblem: undefined,
  });
}

/** Applies the sample's own solution. */
export const oracle = 'git apply /tmp/oracle.patch || exit 9';

function oraclePatch({ sample, folder }: SampleFolder): PlacedFile[] {
  if (sample.oracle === undefined || !('patch' in sample.oracle)) return [];
  const content = readFileSync(join(folder, sample.oracle.patch));
  return [{ path: '/tmp/oracle.patch', content, owner: 'agent', mode: 0o644 }];
}

function hiddenTests({ sample, folder, entries }: SampleFolder): PlacedFile[] {
  const { tests } = sample.verification;
  return entriesBelow(entries, tests).flatMap((entry): PlacedFile[] => {
    if (entry.kind !== 'file') return [];
    const path = `/grader/tests/${entry.path.slice(tests.length + 1)}`;
    return [{ path, content: readFileSync(join(folder, entry.path)), mode: 0o600 }];
  });
}

function outcomeOf(run: PlannedRun, graded: Graded): RunOutcome {
  const tests: TestRow[] = [];
  const badReports: string[] = [];
  const end: RunEnd = { kind: 'exited', code: graded.code };
  for (const report of run.reports) {
    if (report.format === 'exit-status') {
      const row = exitStatusRow(end);
      if (row !== undefined) tests.push(row);
      continue;
    }
    const bytes = graded.reports.get(report.path ?? '') ?? Buffer.alloc(0);
    const parsed = parseReport({ format: report.format, names: report.names, bytes }, defaultReportLimits);
    if (parsed.ok) tests.push(...parsed.rows);
    else badReports.push(`${report.path}: ${parsed.reason}; ${graded.stderr.slice(-2_000)}`);
  }
  return { name: run.name, roles: run.roles, end, tests, badReports, reward: undefined };
}

function shellText(command: Command): string {
  if (typeof command === 'string') return command;
  return command.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(' ');
}
