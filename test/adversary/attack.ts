import type { Verdict } from '../../services/shared/verdict/outcome.ts';

/** The samples that are attacked; `targets.ts` says how each is graded naively. */
export type TargetName = 'python' | 'javascript' | 'c' | 'java' | 'shell';

/** What a naive grader takes for the truth after the tests ran in place. */
export type Belief = 'exit status' | 'report' | 'log' | 'reward';

/** A way to be graded as passed without having done the task. */
export interface Attack {
  readonly name: string;
  /** What it does: a clause that goes on after "a submission that". */
  readonly does: string;
  readonly target: TargetName;
  /** What of the naive grader it fools. */
  readonly fools: Belief;
  /** Before the tests the naive grader takes down with git what it grades, as harnesses do that keep a patch. */
  readonly recorded?: true;
  /** Shell text that the agent runs in its own container, in the working directory. */
  readonly script: string;
  /** What Assay says to it at ISOLATED. */
  readonly verdict: Verdict | readonly Verdict[];
  /** What the reasons of the verdict must say, one of them. */
  readonly because: RegExp;
}

/** Shell text that writes a file with just this content. */
export function write(path: string, content: string): string {
  const encoded = Buffer.from(content).toString('base64');
  return `mkdir -p "$(dirname ${path})" && echo ${encoded} | base64 -d > ${path}`;
}

/** What most attacks on the files of a submission carry: odd files alone would not make a naive grader pass them. */
export const leavesEarly = write('conftest.py', 'import os\nos._exit(0)\n');

/** Whether it is the conftest that fools the naive grader, and not what the attack is about. */
export const foolsByConftest = ({ script }: Attack): boolean => script.startsWith(leavesEarly);

/** What a test of the Python sample says when the sum is still wrong. */
export const wrongSum = /fail_to_pass: the last number is part of the sum \(failed\), a range of one number/;
