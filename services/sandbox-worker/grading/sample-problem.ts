import { planRuns } from '../../shared/sample/run-plan.ts';
import type { Sample } from '../../shared/sample/sample-schema.ts';
import { graderHome, slotMount } from './grading-place.ts';

/** What keeps a sample from being graded here, whatever is submitted; undefined where nothing does. */
export function sampleProblemOf({ environment, verification }: Sample): string | undefined {
  const reserved = [graderHome, slotMount].find((path) => overlap(environment.workdir, path));
  if (reserved !== undefined) {
    return `environment.workdir: ${environment.workdir} meets ${reserved}, which the grading needs for itself`;
  }
  const weak = planRuns(verification).find(({ assurance }) => assurance === 'SHARED');
  if (weak !== undefined) {
    return `${weak.name}: ${weak.assurance} needs the session itself; submissions are graded in a fresh container, at ISOLATED, IN_PROCESS or FORK`;
  }
  return undefined;
}

function overlap(a: string, b: string): boolean {
  return a === b || a.startsWith(`${b}/`) || b.startsWith(`${a}/`);
}
