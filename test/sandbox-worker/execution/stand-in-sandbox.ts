import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { ExecuteRequestSchema } from '../../../gen/assay/v1/execution_pb.js';
import type { ContainerCgroups, ExecutionCgroup } from '../../../services/sandbox-worker/cgroup/execution-cgroup.ts';
import { createEndedMemory } from '../../../services/sandbox-worker/execution/ended-memory.ts';
import type { Execution } from '../../../services/sandbox-worker/execution/execution.ts';
import { createExecutions, type Executions } from '../../../services/sandbox-worker/execution/executions.ts';
import { type Journal, openJournal } from '../../../services/sandbox-worker/execution/journal.ts';
import { createSpoolBudget, type SpoolBudget } from '../../../services/sandbox-worker/execution/spool-budget.ts';
import { createUnreadPace } from '../../../services/sandbox-worker/execution/unread-pace.ts';
import { createFailureBoundary } from '../../../services/sandbox-worker/failure-boundary.ts';
import type { GuestExit } from '../../../services/sandbox-worker/guest/frame.ts';
import { createLog } from '../../../services/shared/log.ts';
import { runDirectory } from '../../run.ts';

/** Executions with a journal and spools on disk, whose guest and cgroups are what the test says. */
export interface StandInSandbox {
  readonly directory: string;
  readonly budget: SpoolBudget;
  readonly executions: Executions;
  readonly journal: Journal;
  /** What the guest was sent. */
  readonly sent: Buffer[];
  /** What its timers and unawaited work failed with. */
  readonly failures: unknown[];
  /** Whether processes are left in every cgroup. */
  populated: boolean;
  execute(request: MessageInitShape<typeof ExecuteRequestSchema>): Execution;
  remove(): void;
}

export const exited: GuestExit = {
  status: 0,
  userMicros: 0,
  systemMicros: 0,
  peakKib: 0,
  stdoutBytes: 0,
  stderrBytes: 0,
  durationMicros: 0,
  shellEnded: false,
  shellSilent: false,
};

export interface StandInOptions {
  /** Of an earlier stand-in, whose journal and spools are taken up. */
  readonly directory?: string;
  /** Ended executions in memory. */
  readonly ended?: number;
  /** Executions of a session. */
  readonly executions?: number;
}

export function createStandInSandbox(options: StandInOptions = {}): StandInSandbox {
  const directory = options.directory ?? mkdtempSync(join(runDirectory(), 'sandbox-'));
  const { ended = 1_000 } = options;
  const { journal, records } = openJournal(join(directory, 'journal'));
  const sent: Buffer[] = [];
  const failures: unknown[] = [];
  const cgroup: ExecutionCgroup = {
    place: async () => true,
    kill: () => (sandbox.populated ? 1 : 0),
    usage: () => undefined,
    resetPeak() {},
    release() {},
    pids: () => [],
    populated: () => sandbox.populated,
    remove: async () => true,
  };
  const cgroups: ContainerCgroups = {
    lastNest: 0,
    processors: undefined,
    execution: () => cgroup,
    existing: () => cgroup,
    nest: () => undefined,
  };
  const budget = createSpoolBudget(1_073_741_824, createLog('test', 'silent'), { patienceMs: 0 });
  const executions = createExecutions(
    {
      project: 'p',
      sessionId: 'ses_stand_in',
      journal,
      pace: createUnreadPace(1_073_741_824),
      budget,
      memory: createEndedMemory({ perSession: ended, perWorker: ended }),
      journalPath: () => join(directory, 'journal'),
      meter: {
        outputBytes: { 1: 0, 2: 0 },
        inputBytes: 0,
        openStreams: { Execute: 0, Attach: 0 },
        guestReconnects: 0,
        cgroupFailures: { container: 0, process: 0 },
        gradings: 0,
        executionEnded() {},
        sandboxMade() {},
        sandboxEnded() {},
        gradingEnded() {},
        stoodStill() {},
      },
      tracing: undefined,
      boundary: createFailureBoundary((error) => void failures.push(error)),
      cgroups: () => cgroups,
      memoryKills: () => undefined,
      spoolPath: (number, stream) => join(directory, `${number}.${stream}`),
      send: (frame) => void sent.push(frame),
      unplaced() {},
    },
    {
      env: {},
      workingDirectory: '/',
      defaultKeptBytes: 16 * 1_048_576,
      placeScript: () => '/script',
      removeScript() {},
    },
    records,
    { executions: options.executions ?? 100, shells: 4, queued: 10, queuedBytes: 1_048_576 },
  );
  const sandbox: StandInSandbox = {
    directory,
    budget,
    executions,
    journal,
    sent,
    failures,
    populated: true,
    execute(fields) {
      const request = create(ExecuteRequestSchema, fields);
      request.program = { case: 'command', value: 'command' };
      return executions.accept(request, toBinary(ExecuteRequestSchema, request));
    },
    remove() {
      journal.close();
      rmSync(directory, { recursive: true });
    },
  };
  executions.connected(0n);
  executions.synced();
  return sandbox;
}
