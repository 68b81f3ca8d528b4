import type { Verification } from './verification-schema.ts';
import {
  type Assurance,
  assurances,
  type Command,
  type Report,
  type RoleName,
  roleNames,
} from './verification-schema.ts';

/** One start of a test command, with the roles whose tests it must report. Each has a container of its own. */
export interface PlannedRun {
  readonly name: string;
  readonly command: Command;
  readonly timeoutSeconds: number;
  readonly reports: readonly Report[];
  readonly assurance: Assurance;
  readonly roles: readonly RoleName[];
}

/** The runs of a verification, in order: what the verdict needs first, the sentinels last and by themselves. */
export function planRuns(verification: Verification): PlannedRun[] {
  const runs: PlannedRun[] = [];
  const shared: RoleName[] = [];
  for (const name of roleNames) {
    const role = verification[name];
    if (role === undefined || role.tests.length === 0) continue;
    if (role.command === undefined) {
      shared.push(name);
      continue;
    }
    runs.push({
      name,
      command: role.command,
      timeoutSeconds: role.timeout ?? verification.timeout,
      reports: role.reports ?? verification.reports,
      assurance: role.assurance,
      roles: [name],
    });
  }
  const levels = shared.map((name) => verification[name]?.assurance ?? 'SHARED');
  if (shared.length === 0) return runs;
  const { command, timeout, reports } = verification;
  const main = { name: 'tests', command, timeoutSeconds: timeout, reports, assurance: weakest(levels), roles: shared };
  return [main, ...runs];
}

/** Whether a run needs all of the session's file system. */
export function needsWhole(verification: Verification): boolean {
  return planRuns(verification).some(({ assurance }) => assurance === 'FORK');
}

/** Whether a run takes place in the session itself. */
export function runsInPlace(verification: Verification): boolean {
  return planRuns(verification).some(({ assurance }) => assurance === 'SHARED');
}

/** The weakest of some levels; the strongest there is where none is given. */
export function weakest(levels: readonly Assurance[]): Assurance {
  return levels.reduce<Assurance>(
    (worst, level) => (assurances.indexOf(level) > assurances.indexOf(worst) ? level : worst),
    'ISOLATED',
  );
}
