/** One thing that is wrong with a sample: where, what was expected, what was found. */
export interface Problem {
  /** The file, relative to the sample's folder; with a line where one is known. */
  readonly file: string;
  /** The key inside the file, such as `verification.timeout`; empty where the file itself is meant. */
  readonly path: string;
  readonly expected: string;
  readonly found: string;
}

/** A folder that is no sample. All that is wrong is told at once. */
export class SampleError extends Error {
  readonly problems: readonly Problem[];

  constructor(folder: string, problems: readonly Problem[]) {
    super(`${folder} is not a sample:\n${problems.map((problem) => `  ${describeProblem(problem)}`).join('\n')}`);
    this.name = 'SampleError';
    this.problems = problems;
  }
}

export function describeProblem({ file, path, expected, found }: Problem): string {
  return `${file}: ${path === '' ? '' : `${path}: `}expected ${expected}, found ${found}`;
}
