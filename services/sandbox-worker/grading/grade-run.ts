import { DomainError } from '../../shared/domain-error.ts';
import type { PlannedRun } from '../../shared/sample/run-plan.ts';
import type { RunOutcome } from '../../shared/verdict/outcome.ts';
import type { ExecutionUsage } from '../cgroup/execution-cgroup.ts';
import type { ContainerLimits } from '../docker/engine.ts';
import type { ReportReader } from '../report/report-reader.ts';
import type { Applied } from '../submission/apply.ts';
import type { ApplyPlace } from '../submission/apply-work.ts';
import type { InvalidFinding } from '../submission/rules.ts';
import { type Finished, isUnstarted, runToEnd } from './command-outcome.ts';
import type { GradedRun, GradingOrder } from './grader.ts';
import type { GradingCommands } from './grading-commands.ts';
import { abortable, type GradingContainer, type GradingContainers } from './grading-container.ts';
import { placeGraderFiles } from './grading-files.ts';
import type { PhaseClock } from './phase-clock.ts';
import { readReports } from './run-reports.ts';

const readyLine = 'ready\n';

/** What all runs of one verification share. */
export interface RunContext {
  readonly order: GradingOrder;
  readonly imageId: string;
  readonly limits: ContainerLimits;
  readonly commands: GradingCommands;
  readonly containers: GradingContainers;
  readonly reader: ReportReader;
  readonly clock: PhaseClock;
  /** Writes the submission into a container in which nothing ran yet. */
  apply(place: ApplyPlace): Promise<Applied>;
  /** Has a container removed, while the grading goes on. */
  discard(container: GradingContainer): void;
}

/** What came of one run. */
export interface RunReport {
  readonly plan: PlannedRun;
  readonly run: GradedRun;
  /** None where its command was not reached. */
  readonly outcome: RunOutcome | undefined;
  readonly invalid: InvalidFinding | undefined;
  /** Why one of its commands could not be executed; whose fault that is cannot be told from here. */
  readonly unstarted: string | undefined;
  readonly notes: readonly string[];
  readonly usage: ExecutionUsage | undefined;
}

/** A container with the tests and the submission in it, in which nothing ran yet. */
export type ReadyContainer =
  | { readonly kind: 'ready'; readonly container: GradingContainer; readonly notes: readonly string[] }
  | { readonly kind: 'invalid'; readonly finding: InvalidFinding };

/** `empty` leaves the submission out. Whatever goes wrong, the container goes. */
export async function readyContainer(context: RunContext, empty = false): Promise<ReadyContainer> {
  const { order, clock, containers, imageId, limits } = context;
  const { signal, verificationId } = order;
  signal.throwIfAborted();
  const wanted = { imageId, limits, verificationId, background: false };
  const container = await clock.time('create', () => containers.create(wanted));
  try {
    signal.throwIfAborted();
    // The tests come first: what does not fit on the disk then is the submission's.
    await clock.time('apply', () => placeGraderFiles(container.place, order.sample));
    const applied = empty ? undefined : await clock.time('apply', () => context.apply(container.place));
    signal.throwIfAborted();
    if (applied?.kind === 'invalid') {
      context.discard(container);
      return applied;
    }
    if (!container.started) await clock.time('start', () => container.start());
    await clock.time('connect', () => container.connect(signal));
    return { kind: 'ready', container, notes: applied === undefined ? [] : notesOf(applied) };
  } catch (error) {
    context.discard(container);
    throw error;
  }
}

/** One run in a container of its own, which is given up afterwards. `began` is called when its tests begin. */
export async function gradeRun(
  context: RunContext,
  plan: PlannedRun,
  ready: ReadyContainer,
  began: () => void = () => {},
): Promise<RunReport> {
  if (ready.kind === 'invalid') return invalidRun(plan, ready.finding);
  try {
    return await runCommands(context, plan, ready, began);
  } finally {
    context.discard(ready.container);
  }
}

async function runCommands(
  context: RunContext,
  plan: PlannedRun,
  { container, notes }: Extract<ReadyContainer, { kind: 'ready' }>,
  began: () => void,
): Promise<RunReport> {
  const { order, clock, commands, reader } = context;
  const { signal } = order;
  // Before anything of the submission runs, so that only the infrastructure can keep it from starting.
  const spawner = await clock.time('spawner', () => startSpawner(container, commands, signal));
  const prepare = await runPrepare(context, container);
  if (prepare !== undefined && !isClean(prepare)) {
    const usage = container.usage();
    await clock.time('kill', () => container.kill());
    return { ...report(plan, prepare, undefined), unstarted: unstartedBy('prepare', prepare), notes, usage };
  }
  order.phase('running');
  signal.throwIfAborted();
  began();
  const finished = await clock.time('run', () =>
    runToEnd(container, commands.tests(plan.command), plan.timeoutSeconds, signal),
  );
  const usage = container.usage();
  const spawnerLost = spawner.over ? [`${plan.name}: the spawner was ended before the tests were`] : [];
  await clock.time('kill', () => container.kill());
  order.phase('reading');
  const read = await clock.time('read', () => readReports(plan, finished.end, container.upper, reader, signal));
  const missing = read.tests.length === 0 || plan.reports.every(({ format }) => format === 'exit-status');
  return {
    ...report(plan, prepare, finished),
    outcome: { name: plan.name, roles: plan.roles, end: finished.end, ...read },
    unstarted: missing ? unstartedBy(plan.name, finished) : undefined,
    notes: [...notes, ...spawnerLost],
    usage,
  };
}

async function startSpawner(container: GradingContainer, commands: GradingCommands, signal: AbortSignal) {
  const spawner = container.run(commands.spawner);
  await abortable(signal, spawner.printed(readyLine.length));
  if (!spawner.over) return spawner;
  const end = await spawner.ended;
  const why = end.kind === 'refused' ? `step ${end.step}, errno ${end.errno}` : `wait status ${end.exit.status}`;
  throw new DomainError('SANDBOX_LOST', `the spawner of a grading container did not start: ${why}`);
}

async function runPrepare(context: RunContext, container: GradingContainer): Promise<Finished | undefined> {
  const { order, clock, commands } = context;
  const { prepare } = order.sample.sample.verification;
  if (prepare === undefined) return undefined;
  order.phase('preparing');
  const command = commands.prepare(prepare.command);
  return clock.time('prepare', () => runToEnd(container, command, prepare.timeout, order.signal));
}

function report(plan: PlannedRun, prepare: Finished | undefined, command: Finished | undefined) {
  const { name, roles, assurance } = plan;
  return { plan, run: { name, roles, assurance, prepare, command }, outcome: undefined, invalid: undefined };
}

function invalidRun(plan: PlannedRun, finding: InvalidFinding): RunReport {
  const none = report(plan, undefined, undefined);
  return { ...none, invalid: finding, unstarted: undefined, notes: [], usage: undefined };
}

function notesOf(applied: Extract<Applied, { kind: 'applied' }>): string[] {
  const { files, bytes, restored } = applied;
  const notes = [`the submission changes ${files} paths, with ${bytes} bytes in files`];
  if (restored.length > 0) notes.push(`protected and left as the image has them: ${restored.join(', ')}`);
  return notes;
}

function isClean({ end }: Finished): boolean {
  return end.kind === 'exited' && end.code === 0;
}

function unstartedBy(name: string, finished: Finished): string | undefined {
  if (!isUnstarted(finished)) return undefined;
  const code = finished.end.kind === 'exited' ? finished.end.code : '';
  return `${name}: ${finished.refusal ?? `exited with ${code}`}`;
}
