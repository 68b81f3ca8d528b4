import type { SampleFolder } from '../../shared/sample/read-sample.ts';
import { type PlannedRun, planRuns } from '../../shared/sample/run-plan.ts';
import type { Sample } from '../../shared/sample/sample-schema.ts';
import { judge } from '../../shared/verdict/judge.ts';
import type { Grading } from '../../shared/verdict/outcome.ts';
import type { ContainerLimits, Engine, SandboxImage } from '../docker/engine.ts';
import type { ReportReader } from '../report/report-reader.ts';
import { createApplier } from '../submission/apply.ts';
import type { Manifests } from '../submission/manifests.ts';
import { rulesOf } from '../submission/rules.ts';
import type { SubmissionThreads } from '../submission/submission-threads.ts';
import { gradeRun, type RunContext, type RunReport } from './grade-run.ts';
import type { Graded, Grader, GradingOrder } from './grader.ts';
import { createGradingCommands } from './grading-commands.ts';
import { abortable, type GradingContainers } from './grading-container.ts';
import { joinOutputs } from './kept-output.ts';
import { createPhaseClock, type PhaseClock } from './phase-clock.ts';
import { sampleProblemOf } from './sample-problem.ts';

export interface GraderDeps {
  readonly engine: Pick<Engine, 'image'>;
  readonly containers: GradingContainers;
  readonly manifests: Manifests;
  readonly threads: SubmissionThreads;
  readonly reader: ReportReader;
  /** For what a sample does not say. */
  readonly defaultLimits: ContainerLimits;
  /** Of each stream of each command. */
  readonly outputBytes: number;
}

export function createGrader(deps: GraderDeps): Grader {
  return {
    async grade(order) {
      const clock = createPhaseClock();
      const { sample } = order.sample;
      const problem = sampleProblemOf(sample);
      if (problem !== undefined) return conclude(order.sample, [], problem, clock);
      const image = await abortable(order.signal, deps.engine.image(order.image));
      // Made with the image; where it was lost it takes seconds, which a cancel need not wait for.
      await clock.time('manifest', () => abortable(order.signal, deps.manifests.of(image.id)));
      const context = contextOf(deps, order, image, clock);
      const reports: RunReport[] = [];
      for (const plan of planRuns(sample.verification)) {
        const report = await gradeRun(context, plan);
        reports.push(report);
        if (report.unstarted !== undefined) {
          return conclude(order.sample, reports, await proveBroken(context, plan), clock);
        }
        if (isSettled(report)) break;
      }
      return conclude(order.sample, reports, undefined, clock);
    },
  };
}

function contextOf(deps: GraderDeps, order: GradingOrder, image: SandboxImage, clock: PhaseClock): RunContext {
  const { manifests, threads, defaultLimits, outputBytes, containers, reader } = deps;
  const { sample } = order.sample;
  const { digest, path } = order.submission;
  const store = { fetch: async () => ({ file: path, release: async () => {} }) };
  const applier = createApplier({ manifests, store, threads });
  const rules = rulesOf(sample.environment.workdir, sample.verification);
  return {
    order,
    imageId: image.id,
    limits: limitsOf(sample, defaultLimits),
    commands: createGradingCommands(sample, image, outputBytes),
    containers,
    reader,
    clock,
    apply: (upper) => applier.apply(digest, { imageId: image.id, upper }, rules),
  };
}

function limitsOf({ environment }: Sample, defaults: ContainerLimits): ContainerLimits {
  return {
    cpus: environment.cpus ?? defaults.cpus,
    memoryBytes: environment.memory ?? defaults.memoryBytes,
    diskBytes: environment.disk ?? defaults.diskBytes,
    pids: environment.pids ?? defaults.pids,
  };
}

/** A command that cannot be executed even where nothing was submitted is the sample's fault. Nothing less proves it. */
async function proveBroken(context: RunContext, plan: PlannedRun): Promise<string | undefined> {
  const { unstarted } = await gradeRun(context, plan, true);
  return unstarted === undefined ? undefined : `${unstarted}, without any submission too`;
}

/** Whether nothing that a further run says could change the verdict to a better one. */
function isSettled({ invalid, outcome }: RunReport): boolean {
  if (invalid !== undefined || outcome === undefined) return true;
  return outcome.end.kind === 'timed_out' || outcome.end.kind === 'out_of_memory';
}

function conclude(
  { sample: { verification } }: SampleFolder,
  reports: readonly RunReport[],
  sampleProblem: string | undefined,
  clock: PhaseClock,
): Graded {
  const { fail_to_pass, pass_to_pass, sentinel_fail } = verification;
  const grading: Grading = {
    roles: { fail_to_pass, ...(pass_to_pass && { pass_to_pass }), ...(sentinel_fail && { sentinel_fail }) },
    reward: verification.reward.from,
    findings: reports.flatMap(({ invalid }) =>
      invalid === undefined ? [] : [{ kind: 'invalid' as const, reason: `${invalid.reason}: ${invalid.message}` }],
    ),
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
    phases: clock.timings(),
    cpuMs: reports.reduce((sum, { usage }) => sum + (usage?.cpuMicros ?? 0) / 1_000, 0),
    peakMemoryBytes: Math.max(0, ...reports.map(({ usage }) => usage?.peakMemoryBytes ?? 0)),
    notes: [...new Set(reports.flatMap(({ notes }) => notes))],
  };
}
