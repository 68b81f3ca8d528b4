import type { Verification } from '../../shared/sample/verification-schema.ts';
import { type BytePath, fromText, isWithin, printable } from './byte-path.ts';
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
  /** Everything that changed in the root is taken, whatever is included; forbidden and restored paths stay such. */
  readonly whole?: boolean;
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
  /** What paths are meant below, from the root of the container. */
  readonly workingDirectory: BytePath;
  readonly included: PathMatcher;
  readonly excluded: PathMatcher;
  readonly forbidden: PathMatcher;
  readonly restored: PathMatcher;
  /** Whether tests that load the submission may read there what its owner may. */
  readonly opened: PathMatcher;
  /** Whether FIFOs and sockets are left out: they are nothing without the processes that have them open. */
  readonly leavesSpecial: boolean;
  readonly limits: SubmissionLimits;
}

/** Below the root: what belongs to the kernel, to the engine and to us. No agent's change is there, or may be. */
const reserved: readonly BytePath[] = ['.dockerenv', 'assay-oracle', 'dev', 'grader', 'proc', 'run', 'sys'];

export function compileRules(rules: SubmissionRules): CompiledRules {
  const { limits } = rules;
  const workingDirectory = fromText(rules.workingDirectory);
  const forbidden = compilePatterns(rules.forbid);
  const restored = compilePatterns(rules.restore);
  if (rules.whole !== true) {
    const included = compilePatterns(rules.include);
    const excluded = compilePatterns(rules.exclude);
    const opened = (): boolean => true;
    return { workingDirectory, included, excluded, forbidden, restored, opened, leavesSpecial: false, limits };
  }
  const below = (matcher: PathMatcher): PathMatcher => {
    return (path) => path.startsWith(`${workingDirectory}/`) && matcher(path.slice(workingDirectory.length + 1));
  };
  return {
    workingDirectory: '',
    included: () => true,
    excluded: (path) => reserved.some((root) => isWithin(path, root)),
    forbidden: below(forbidden),
    restored: below(restored),
    opened: (path) => isWithin(path, workingDirectory),
    leavesSpecial: true,
    limits,
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
