import type { Verification } from '../../shared/sample/verification-schema.ts';
import { type BytePath, fromText, printable } from './byte-path.ts';
import { compilePatterns, type PathMatcher } from './path-pattern.ts';

/** How large a submission may be. */
export interface SubmissionLimits {
  /** Of all regular files together, holes counted as what they read as. */
  readonly bytes: number;
  /** Files, links, directories and deletions together. */
  readonly files: number;
  /** Of one path, below the working directory. */
  readonly pathBytes: number;
  /** Directories on the way to a file. */
  readonly depth: number;
}

export const defaultLimits: SubmissionLimits = { bytes: 256 * 2 ** 20, files: 20_000, pathBytes: 1_024, depth: 64 };

/** What a sample says of its submissions. All patterns are meant below the working directory. */
export interface SubmissionRules {
  readonly workingDirectory: string;
  readonly include: readonly string[];
  readonly exclude: readonly string[];
  /** A submission that touches one of these is invalid. */
  readonly forbid: readonly string[];
  /** What a submission changed here is left as the image has it. */
  readonly restore: readonly string[];
  readonly limits: SubmissionLimits;
}

export function rulesOf(
  workingDirectory: string,
  sample: Pick<Verification, 'submission' | 'restore_paths' | 'forbid_paths'>,
): SubmissionRules {
  const { include, exclude, max_bytes: bytes, max_files: files } = sample.submission;
  const limits = { ...defaultLimits, bytes, files };
  return { workingDirectory, include, exclude, forbid: sample.forbid_paths, restore: sample.restore_paths, limits };
}

export interface CompiledRules {
  /** From the root of the container. */
  readonly workingDirectory: BytePath;
  readonly included: PathMatcher;
  readonly excluded: PathMatcher;
  readonly forbidden: PathMatcher;
  readonly restored: PathMatcher;
  readonly limits: SubmissionLimits;
}

export function compileRules(rules: SubmissionRules): CompiledRules {
  return {
    workingDirectory: fromText(rules.workingDirectory),
    included: compilePatterns(rules.include),
    excluded: compilePatterns(rules.exclude),
    forbidden: compilePatterns(rules.forbid),
    restored: compilePatterns(rules.restore),
    limits: rules.limits,
  };
}

/** Why a submission cannot be taken. */
export type InvalidReason =
  | 'WORKING_DIRECTORY'
  | 'TOO_MANY_BYTES'
  | 'TOO_MANY_FILES'
  | 'PATH_TOO_LONG'
  | 'TOO_DEEP'
  | 'SPECIAL_FILE'
  | 'LEASED'
  | 'HARD_LINK'
  | 'SET_ID'
  | 'OWNER'
  | 'FORBIDDEN_PATH'
  | 'MALFORMED';

/** What was found, for the verdict INVALID_SUBMISSION. */
export interface InvalidFinding {
  readonly reason: InvalidReason;
  /** Printable; '' where it is about no path in particular. */
  readonly path: string;
  readonly message: string;
}

/** The agent's doing, never an infrastructure failure: the same submission would be refused again. */
export class InvalidSubmission extends Error {
  readonly finding: InvalidFinding;

  constructor(reason: InvalidReason, path: BytePath, said: string) {
    const shown = printable(path);
    const message = shown === '' ? said : `${shown}: ${said}`;
    super(message);
    this.name = 'InvalidSubmission';
    this.finding = { reason, path: shown, message };
  }
}
