import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Whole running systems, which keep both cores busy. What other tests do is mostly to wait. */
const busy = /\/test\/(e2e|cli|samples)\/|\/sandbox-worker\/(grading|sample|submission)\//;
/** Without known durations larger files come first; these take longer than their size says. */
const long =
  /\/(assay-shell|crash|disk-pressure|seal-crash|shell-behaviours|timeout-crash|transcript-store)\.test\.ts$/;
const warmingUp = 4;

/** Spreads the files that keep the machine busy evenly over the run, so that others wait while these work. */
export class SpreadSequencer extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const working = earlyLong(sorted.filter(({ moduleId }) => busy.test(moduleId)));
    const waiting = sorted.filter(({ moduleId }) => !busy.test(moduleId));
    if (working.length === 0) return waiting;
    const upTo = (index: number): number => Math.floor((index * waiting.length) / working.length);
    return working.flatMap((file, index) => [file, ...waiting.slice(upTo(index), upTo(index + 1))]);
  }
}

/**
 * The long ones come before the end, where one worker would wait for the other, and not first: on a fresh checkout only a
 * service that stops in order leaves what it compiled to the next, and these kill theirs.
 */
function earlyLong(files: readonly TestSpecification[]): TestSpecification[] {
  const longest = files.filter(({ moduleId }) => long.test(moduleId));
  const others = files.filter(({ moduleId }) => !long.test(moduleId));
  return [...others.slice(0, warmingUp), ...longest, ...others.slice(warmingUp)];
}
