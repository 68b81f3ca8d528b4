import type { Sample } from '../../shared/sample/sample-schema.ts';
import { graderHome, slotMount } from './grading-place.ts';

/** What keeps a sample from being graded here, whatever is submitted; undefined where nothing does. */
export function sampleProblemOf({ environment }: Sample): string | undefined {
  const reserved = [graderHome, slotMount].find((path) => overlap(environment.workdir, path));
  if (reserved !== undefined) {
    return `environment.workdir: ${environment.workdir} meets ${reserved}, which the grading needs for itself`;
  }
  return undefined;
}

function overlap(a: string, b: string): boolean {
  return a === b || a.startsWith(`${b}/`) || b.startsWith(`${a}/`);
}
