import { abortable } from '../../shared/abortable.ts';
import { DomainError } from '../../shared/domain-error.ts';
import type { PlannedRun } from '../../shared/sample/run-plan.ts';
import type { RunOutcome } from '../../shared/verdict/outcome.ts';
import type { ExecutionUsage } from '../cgroup/execution-cgroup.ts';
import type { InvalidFinding } from '../submission/rules.ts';
import { type Finished, runToEnd } from './command-outcome.ts';
import type { GradedRun } from './grader.ts';
import type { GradingCommands } from './grading-commands.ts';
import type { GradingContainer } from './grading-container.ts';
import type { ReadyContainer, RunContext } from './ready-container.ts';
import { readReports } from './run-reports.ts';
import { type Unstarted, unstartedCommand } from './unstarted-command.ts';

const readyLine = 'ready\n';
const spawnerMs = 20_000;

/** What came of one run. */
export interface RunReport {
  readonly plan: PlannedRun;
  readonly run: GradedRun;
  /** None where its command was not reached. */
  readonly outcome: RunOutcome | undefined;
  readonly invalid: InvalidFinding | undefined;
  /** A protected path that was changed before the tests could begin. */
  readonly touched: string | undefined;
  /** One of its commands could not be executed; whose fault that is cannot be told from here. */
  readonly unstarted: Unstarted | undefined;
  readonly notes: readonly string[];
  readonly usage: ExecutionUsage | undefined;
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
    const { command } = order.sample.sample.verification.prepare ?? plan;
    const unstarted = unstartedCommand('prepare', prepare, command, commands.prepare(command));
    return { ...reportOf(plan, prepare, undefined), unstarted, notes, usage };
  }
  const looked = prepare && (await clock.time('prepare', () => context.lookAtProtected(container, plan.assurance)));
  if (looked !== undefined && looked.kind !== 'untouched') {
    const usage = container.usage();
    await clock.time('kill', () => container.kill());
    const found = looked.kind === 'touched' ? { touched: looked.path } : { invalid: looked.finding };
    return { ...reportOf(plan, prepare, undefined), ...found, unstarted: undefined, notes, usage };
  }
  order.phase('running');
  signal.throwIfAborted();
  began();
  const tests = commands.tests(plan.command);
  const finished = await clock.time('run', () => runToEnd(container, tests, plan.timeoutSeconds, signal));
  const usage = container.usage();
  const spawnerLost = spawner.over ? [`${plan.name}: the spawner was ended before the tests were`] : [];
  await clock.time('kill', () => container.kill());
  order.phase('reading');
  const read = await clock.time('read', () => readReports(plan, finished.end, container.report, reader, signal));
  const missing = read.tests.length === 0 || plan.reports.every(({ format }) => format === 'exit-status');
  return {
    ...reportOf(plan, prepare, finished),
    outcome: { name: plan.name, roles: plan.roles, end: finished.end, ...read },
    unstarted: missing ? unstartedCommand(plan.name, finished, plan.command, tests) : undefined,
    notes: [...notes, ...spawnerLost],
    usage,
  };
}

async function startSpawner(container: GradingContainer, commands: GradingCommands, signal: AbortSignal) {
  const spawner = container.run(commands.spawner);
  const late = AbortSignal.timeout(spawnerMs);
  await abortable(AbortSignal.any([signal, late]), spawner.printed(readyLine.length)).catch((error: unknown) => {
    if (signal.aborted || !late.aborted) throw error;
    throw new DomainError('SANDBOX_LOST', `the spawner of a grading container was not ready within ${spawnerMs} ms`);
  });
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

export function reportOf(plan: PlannedRun, prepare: Finished | undefined, command: Finished | undefined) {
  const { name, roles, assurance } = plan;
  const run = { name, roles, assurance, prepare, command };
  return { plan, run, outcome: undefined, invalid: undefined, touched: undefined };
}

export function invalidRun(plan: PlannedRun, finding: InvalidFinding): RunReport {
  const none = reportOf(plan, undefined, undefined);
  return { ...none, invalid: finding, unstarted: undefined, notes: [], usage: undefined };
}

function isClean({ end }: Finished): boolean {
  return end.kind === 'exited' && end.code === 0;
}
