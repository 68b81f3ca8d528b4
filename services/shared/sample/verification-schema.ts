import { z } from 'zod';
import { hasControl, list, number, object, relativePath, size, text, whole } from './field.ts';

/**
 * How far a result can be trusted, strongest first. ISOLATED: the tests reach the submission only through processes of
 * another user. IN_PROCESS: the runner loads the submission, so it can be lied to from inside. FORK: the tests run in a
 * copy of the session's file system. SHARED: they run in the session itself.
 */
export const assurances = ['ISOLATED', 'IN_PROCESS', 'FORK', 'SHARED'] as const;
export type Assurance = (typeof assurances)[number];

export const reportFormats = ['junit', 'tap', 'go-test-json', 'ctrf', 'reward', 'exit-status'] as const;
export type ReportFormat = (typeof reportFormats)[number];

const command = z.union([text(65_536), list(z.string().max(65_536), 1_024, 'arguments').min(1)], {
  error: 'shell text, or a list of a program and its arguments',
});
const timeout = number(1, 86_400, 'seconds');

const report = object({
  format: z.enum(reportFormats, `one of ${reportFormats.join(', ')}`),
  /** The file, below the report folder. `exit-status` has none. */
  path: relativePath("a file's name").optional(),
  /** JUnit only. `qualified`: `classname::name`; `plain`: the name alone. */
  names: z.enum(['qualified', 'plain'], 'qualified or plain').default('qualified'),
}).refine((given) => (given.format === 'exit-status') === (given.path === undefined), {
  message: 'a path for every format but exit-status',
  path: ['path'],
});

const reports = list(report, 16, 'reports').min(1, 'at least one report');

const nameBytes = 1_024;
const testName = z
  .string("a test's name")
  .refine((name) => name !== '' && Buffer.byteLength(name) <= nameBytes && !hasControl(name), {
    message: `a test's name of 1 to ${nameBytes} bytes on one line`,
  });

/** A group of tests with one meaning. Without a command of its own it is part of the verification's run. */
const role = object({
  assurance: z.enum(assurances, `one of ${assurances.join(', ')}`),
  tests: list(testName, 50_000, 'tests'),
  command: command.optional(),
  timeout: timeout.optional(),
  reports: reports.optional(),
});

const pattern = relativePath('a pattern such as src/**');

const submission = object({
  /** Patterns, below the working directory, of what is taken over. */
  include: list(pattern, 1_000, 'patterns').default(['**']),
  exclude: list(pattern, 1_000, 'patterns').default([]),
  max_bytes: size(1, 2 ** 40).default(256 * 2 ** 20),
  max_files: whole(1, 10_000_000, 'a number of files').default(20_000),
});

const reward = z.discriminatedUnion(
  'from',
  [
    object({ from: z.literal('verdict') }),
    object({ from: z.literal('fraction') }),
    object({ from: z.literal('report') }),
  ],
  { error: 'from: verdict (1 or 0), fraction (of required tests) or report (a reward file)' },
);

/** How a submission is graded. */
export const verificationSchema = object({
  /** The folder of hidden tests. No agent ever sees it. */
  tests: relativePath('a folder of the sample'),
  /** Runs first, as the agent's user, in the working directory: a build, for example. */
  prepare: object({ command, timeout: timeout.default(300) }).optional(),
  /** Runs as the grader's user, in the folder of hidden tests. */
  command,
  timeout: timeout.default(300),
  reports,
  fail_to_pass: role,
  pass_to_pass: role.optional(),
  /** Tests that must fail, in a run of their own. One that passes tells that something was tampered with. */
  sentinel_fail: role.optional(),
  submission: submission.prefault({}),
  /** Paths that are brought back to what the image has before the tests run. */
  restore_paths: list(pattern, 1_000, 'patterns').default([]),
  /** Paths that a submission must not touch. */
  forbid_paths: list(pattern, 1_000, 'patterns').default([]),
  reward: reward.default({ from: 'verdict' }),
  /**
   * Whether the sessions of the project stand still, on the worker that grades, while something of the submission runs. Without a default:
   * a sample that does not say it keeps its digest.
   */
  pause_sessions: z.boolean('true or false').optional(),
})
  .superRefine(checkRoles)
  .superRefine(checkPause);

export type Verification = z.output<typeof verificationSchema>;
export type Role = NonNullable<Verification['pass_to_pass']>;
export type Report = z.output<typeof report>;
export type Command = z.output<typeof command>;
export const roleNames = ['fail_to_pass', 'pass_to_pass', 'sentinel_fail'] as const;
export type RoleName = (typeof roleNames)[number];

/** Tests at SHARED run in a session, which cannot stand still meanwhile. */
function checkPause(
  given: { [name in RoleName]?: Role | undefined } & { pause_sessions?: boolean | undefined },
  context: z.RefinementCtx,
): void {
  const inPlace = roleNames.some((name) => given[name]?.assurance === 'SHARED');
  if (!inPlace || given.pause_sessions !== true) return;
  const message = 'false, since tests at SHARED run in a session';
  context.addIssue({ code: 'custom', path: ['pause_sessions'], message });
}

function checkRoles(given: { [name in RoleName]?: Role | undefined }, context: z.RefinementCtx): void {
  const refuse = (path: (string | number)[], message: string): void =>
    context.addIssue({ code: 'custom', path, message });
  const { fail_to_pass: failing, pass_to_pass: passing, sentinel_fail: sentinel } = given;
  if (failing?.tests.length === 0) refuse(['fail_to_pass', 'tests'], 'at least one test');
  if (sentinel !== undefined && sentinel.command === undefined) {
    refuse(['sentinel_fail', 'command'], 'a command: sentinels have a run of their own');
  }
  // What is loaded into a runner can forge all that this runner reports, so a run has one level.
  const shared = passing !== undefined && passing.command === undefined && failing?.command === undefined;
  if (shared && failing !== undefined && passing.assurance !== failing.assurance) {
    refuse(['pass_to_pass', 'command'], 'a command of its own, since its assurance differs from fail_to_pass');
  }
  const seen = new Set<string>();
  for (const name of roleNames) {
    given[name]?.tests.forEach((test, index) => {
      if (seen.has(test)) refuse([name, 'tests', index], 'a test that is named once in all roles together');
      seen.add(test);
    });
  }
}
