import type { PlannedRun } from '../../shared/sample/run-plan.ts';
import { isFull } from '../submission/apply-work.ts';
import { invalidRun, type RunReport, reportOf } from './grade-run.ts';
import { placeGraderFiles } from './grading-files.ts';
import { SessionGone, type SessionPlace } from './in-place.ts';
import type { RunContext } from './ready-container.ts';
import { readReportFile } from './report-folder.ts';
import { readReports } from './run-reports.ts';

/** One run in the session itself: no container, no submission, no spawner and no build; the session is graded as it is. */
export async function gradeInPlace(context: RunContext, plan: PlannedRun): Promise<RunReport> {
  const { order } = context;
  if (order.session === undefined) throw new SessionGone('a run at SHARED needs the session, and there is none');
  order.phase('starting');
  return order.session.within(order.signal, (place) => runIn(place, context, plan));
}

async function runIn(place: SessionPlace, context: RunContext, plan: PlannedRun): Promise<RunReport> {
  const { order, clock, commands, reader } = context;
  const { merged, ids, upper } = place;
  try {
    await clock.time('apply', () => placeGraderFiles({ merged, ids }, order.sample));
  } catch (error) {
    if (!context.limitedDisk || !isFull(error)) throw error;
    const message = "the session's disk is full, so the tests do not fit";
    return invalidRun(plan, { reason: 'TOO_MANY_BYTES', path: '', message });
  }
  order.phase('running');
  const command = commands.inPlace(plan.command);
  const finished = await clock.time('run', () => place.run(command, plan.timeoutSeconds));
  order.phase('reading');
  const report = (path: string, limitBytes: number) => readReportFile(upper, path, limitBytes);
  const read = await clock.time('read', () => readReports(plan, finished.end, report, reader, order.signal));
  return {
    ...reportOf(plan, undefined, finished),
    outcome: { name: plan.name, roles: plan.roles, end: finished.end, ...read },
    unstarted: undefined,
    notes: [`${plan.name}: ran in the session itself, among the processes of the agent`],
    usage: undefined,
  };
}
