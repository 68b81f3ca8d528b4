import { abortable } from '../../shared/abortable.ts';
import { DomainError } from '../../shared/domain-error.ts';
import type { Logger } from '../../shared/log.ts';
import type { SampleFolder } from '../../shared/sample/read-sample.ts';
import { type PlannedRun, planRuns } from '../../shared/sample/run-plan.ts';
import type { Sample } from '../../shared/sample/sample-schema.ts';
import { judge } from '../../shared/verdict/judge.ts';
import type { Grading, SubmissionFinding } from '../../shared/verdict/outcome.ts';
import type { ContainerLimits, Engine, SandboxImage } from '../docker/engine.ts';
import type { ReportReader } from '../report/report-reader.ts';
import { createApplier } from '../submission/apply.ts';
import type { Manifests } from '../submission/manifests.ts';
import { findTouched } from '../submission/protection.ts';
import { rulesOf } from '../submission/rules.ts';
import type { SubmissionThreads } from '../submission/submission-threads.ts';
import { proveBroken } from './broken-sample.ts';
import { gradeInPlace } from './grade-in-place.ts';
import { gradeRun, type RunReport } from './grade-run.ts';
import type { Graded, Grader, GradingOrder, StoredSubmission } from './grader.ts';
import { createGradingCommands } from './grading-commands.ts';
import type { GradingContainers } from './grading-container.ts';
import { joinOutputs } from './kept-output.ts';
import { type ReadyContainer, type RunContext, readyContainer } from './ready-container.ts';
import { sampleProblemOf } from './sample-problem.ts';
import { createStepClock, type StepClock } from './step-clock.ts';

export interface GraderDeps {
  readonly engine: Pick<Engine, 'image' | 'copyImage' | 'capabilities'>;
  readonly containers: GradingContainers;
  readonly manifests: Manifests;
  readonly threads: SubmissionThreads;
  readonly reader: ReportReader;
  /** For what a sample does not say. */
  readonly defaultLimits: ContainerLimits;
  /** Of each stream of each command. */
  readonly outputBytes: number;
  readonly log: Logger;
}

/** Removals that nobody waits for; with more of them a grading waits before it begins. */
const mostBehind = 8;

export interface WorkerGrader extends Grader {
  /** Resolves when the containers of all gradings that have ended are gone. */
  settled(): Promise<void>;
}

export function createGrader(deps: GraderDeps): WorkerGrader {
  const behind = new Set<Promise<void>>();
  const follow = (removal: Promise<void>): void => {
    const followed = removal
      .catch((error: unknown) => deps.log.error({ err: error }, 'a grading container is left for the next sweep'))
      .finally(() => behind.delete(followed));
    behind.add(followed);
  };
  return {
    async settled() {
      while (behind.size > 0) await Promise.all(behind);
    },
    async grade(order) {
      const clock = createStepClock();
      const { sample } = order.sample;
      const problem = sampleProblemOf(sample);
      if (problem !== undefined) return conclude(order.sample, [], problem, clock);
      while (behind.size >= mostBehind) await abortable(order.signal, Promise.race(behind));
      const image = await abortable(order.signal, deps.engine.image(order.image));
      // Made with the image; where it was lost it takes seconds, which a cancel need not wait for.
      await clock.time('manifest', () => abortable(order.signal, deps.manifests.of(image.id)));
      await clock.time('copy', () => abortable(order.signal, deps.engine.copyImage(image.id)));
      const removals: Promise<void>[] = [];
      const context = contextOf(deps, order, image, clock, removals);
      try {
        const { reports, broken } = await gradeAll(context);
        // All of its processes are dead: the verdict need not wait until the engine has tidied up.
        removals.forEach(follow);
        return conclude(order.sample, reports, broken, clock);
      } catch (error) {
        await Promise.all(removals);
        throw error;
      }
    },
  };
}

async function gradeAll(context: RunContext) {
  const reports = await gradeRuns(context, planRuns(context.order.sample.sample.verification));
  const last = reports.at(-1);
  // With the whole file system a submission could have brought any program.
  const provable = last?.plan.assurance !== 'FORK' && last?.plan.assurance !== 'SHARED';
  return { reports, broken: provable ? await proveBroken(context, last?.unstarted) : undefined };
}

function contextOf(
  deps: GraderDeps,
  order: GradingOrder,
  image: SandboxImage,
  clock: StepClock,
  removals: Promise<void>[],
): RunContext {
  const { manifests, threads, defaultLimits, outputBytes, containers, reader, log } = deps;
  const { sample } = order.sample;
  const applier = (path: string) => {
    const store = { fetch: async () => ({ file: path, release: async () => {} }) };
    return createApplier({ manifests, store, threads });
  };
  const limitedDisk = deps.engine.capabilities.includes('disk_limit');
  const rules = rulesOf(sample.environment.workdir, sample.verification);
  return {
    order,
    imageId: image.id,
    limits: limitsOf(sample, defaultLimits),
    commands: createGradingCommands(sample, image, outputBytes),
    containers,
    reader,
    clock,
    limitedDisk,
    apply(place, assurance) {
      const whole = assurance === 'FORK';
      const { digest, path } = whole ? wholeOf(order) : order.submission;
      const how = { opened: assurance !== 'ISOLATED', limited: limitedDisk, project: order.project };
      return applier(path).apply(digest, { imageId: image.id, ...place }, { ...rules, whole }, how);
    },
    async lookAtProtected(container, assurance) {
      if (rules.restore.length === 0 && rules.forbid.length === 0) return undefined;
      const whole = assurance === 'FORK';
      return container.whileStill((layer) =>
        findTouched({ manifests, threads, project: order.project }, layer, { ...rules, whole }),
      );
    },
    discard(container) {
      const failed = (error: unknown) => log.error({ container: container.id, err: error }, 'left for the next sweep');
      removals.push(container.remove().catch(failed));
    },
  };
}

function wholeOf({ submission: { digest, whole } }: GradingOrder): StoredSubmission {
  if (whole !== undefined) return whole;
  const message = `a run at FORK needs the whole file system of the session, which was not sealed with ${digest}`;
  throw new DomainError('INTERNAL', message);
}

/** One after the other; while the tests of one run, the container of the next is made ready. */
async function gradeRuns(context: RunContext, plans: readonly PlannedRun[]): Promise<RunReport[]> {
  const reports: RunReport[] = [];
  const { order } = context;
  const makeReady = (plan: PlannedRun): Promise<ReadyContainer> | undefined => {
    if (plan.assurance === 'SHARED') return undefined;
    const ready = readyContainer(context, plan.assurance);
    ready.catch(() => {});
    return ready;
  };
  order.phase('starting');
  let coming: Promise<ReadyContainer> | undefined;
  try {
    for (const [index, plan] of plans.entries()) {
      const ready: ReadyContainer | undefined = await (coming ?? makeReady(plan));
      coming = undefined;
      if (ready?.kind === 'ready') await stopListeners(context, ready);
      const began = (): void => {
        const next = plans[index + 1];
        if (next !== undefined) coming = makeReady(next);
      };
      const report: RunReport =
        ready === undefined ? await gradeInPlace(context, plan) : await gradeRun(context, plan, ready, began);
      reports.push(report);
      if (isSettled(report)) break;
    }
    return reports;
  } finally {
    // One that nobody needs any more, since the runs ended early.
    const unused = await (coming as Promise<ReadyContainer> | undefined)?.catch(() => undefined);
    if (unused?.kind === 'ready') context.discard(unused.container);
  }
}

/** If the sessions cannot be paused nothing is run, and the container goes. */
async function stopListeners(context: RunContext, { container }: Extract<ReadyContainer, { kind: 'ready' }>) {
  try {
    await context.order.pauseSessions?.();
  } catch (error) {
    context.discard(container);
    throw error;
  }
}

function limitsOf({ environment }: Sample, defaults: ContainerLimits): ContainerLimits {
  return {
    cpus: environment.cpus ?? defaults.cpus,
    memoryBytes: environment.memory ?? defaults.memoryBytes,
    diskBytes: environment.disk ?? defaults.diskBytes,
    pids: environment.pids ?? defaults.pids,
  };
}

/** Whether nothing that a further run says could change the verdict to a better one. */
function isSettled({ invalid, outcome, unstarted }: RunReport): boolean {
  if (invalid !== undefined || outcome === undefined || unstarted !== undefined) return true;
  return outcome.end.kind === 'timed_out' || outcome.end.kind === 'out_of_memory';
}

function findingsOf({ invalid, touched }: RunReport): SubmissionFinding[] {
  if (invalid !== undefined) return [{ kind: 'invalid', reason: `${invalid.reason}: ${invalid.message}` }];
  if (touched === undefined) return [];
  return [{ kind: 'tampering', reason: `prepare changed ${touched}, which has to stay as the image has it` }];
}

function conclude(
  { sample: { verification } }: SampleFolder,
  reports: readonly RunReport[],
  sampleProblem: string | undefined,
  clock: StepClock,
): Graded {
  const { fail_to_pass, pass_to_pass, sentinel_fail } = verification;
  const grading: Grading = {
    roles: { fail_to_pass, ...(pass_to_pass && { pass_to_pass }), ...(sentinel_fail && { sentinel_fail }) },
    reward: verification.reward.from,
    findings: reports.flatMap(findingsOf),
    prepare: reports.map(({ run }) => run.prepare?.end).findLast((end) => end !== undefined),
    runs: reports.flatMap(({ outcome }) => outcome ?? []),
    sampleProblem,
  };
  const [first] = reports;
  const commands = [first?.run.prepare, ...reports.map(({ run }) => run.command)].filter((each) => each !== undefined);
  return {
    judgement: judge(grading),
    runs: reports.map(({ run }) => run),
    stdout: joinOutputs(commands.map(({ stdout }) => stdout)),
    stderr: joinOutputs(commands.map(({ stderr }) => stderr)),
    steps: clock.timings(),
    cpuMs: reports.reduce((sum, { usage }) => sum + (usage?.cpuMicros ?? 0) / 1_000, 0),
    peakMemoryBytes: Math.max(0, ...reports.map(({ usage }) => usage?.peakMemoryBytes ?? 0)),
    notes: [...new Set(reports.flatMap(({ notes }) => notes))],
  };
}
