import type { ServiceImpl } from '@connectrpc/connect';
import type { WorkerService } from '../../../gen/assay/worker/v1/worker_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import { countPassed } from '../../shared/young-collection.ts';
import type { Execution } from '../execution/execution.ts';
import { viewOf } from '../execution/execution-view.ts';
import { parseCursor } from '../log/log-cursor.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import type { Sandboxes } from '../sandbox/sandboxes.ts';
import { shellViewOf } from '../shell/shell-view.ts';
import type { SessionSealer } from '../verification/session-sealer.ts';
import { createSampleCalls, type SampleCallDeps } from './sample-calls.ts';

const pageLimit = 1_000;
const closedByCaller = { reason: 'CLOSED_BY_CALLER', message: 'its owner closed it' };

/** What does not carry output: hot-streams.ts has the rest. */
export type WorkerHandlers = Omit<ServiceImpl<typeof WorkerService>, 'execute' | 'executeMany' | 'attach'>;

export function createWorkerService(
  sandboxes: Sandboxes,
  samples: SampleCallDeps,
  seal: SessionSealer,
): WorkerHandlers {
  function executionOf(request: { sessionId: string; executionId: string } | undefined): Execution {
    const { sessionId, executionId } = required(request);
    return sandboxOf(sessionId).executions.find(executionId);
  }

  function sandboxOf(sessionId: string): Sandbox {
    const sandbox = sandboxes.find(sessionId);
    sandbox.activeMs = Date.now();
    return sandbox;
  }

  /** The sandbox for something that its guest must do. */
  function awakeSandboxOf(sessionId: string): Sandbox {
    const sandbox = sandboxOf(sessionId);
    if (!sandbox.paused) return sandbox;
    throw new DomainError('SESSION_NOT_READY', 'the session is paused; call ResumeSession first');
  }

  return {
    ...createSampleCalls(samples),
    sealSubmission: ({ project, sessionId, requiredAssurance }) => seal(project, sessionId, requiredAssurance),
    async createSandbox({ project, sessionId }) {
      await sandboxes.create(project, sessionId);
      return {};
    },
    async takeWarmSandbox({ record }) {
      const stored = await sandboxes.takeWarm(required(record));
      return stored === undefined ? {} : { record: stored.value, revision: BigInt(stored.revision) };
    },
    async closeSandbox({ project, sessionId }) {
      await sandboxes.close(project, sessionId, closedByCaller);
      return {};
    },
    async pauseSandbox({ project, sessionId }) {
      await sandboxes.pause(project, sessionId);
      return {};
    },
    async resumeSandbox({ project, sessionId }) {
      await sandboxes.resume(project, sessionId);
      return {};
    },
    async refreshSandbox({ project, sessionId }) {
      await sandboxes.refresh(project, sessionId);
      return {};
    },
    async *followSandbox({ sessionId, cursor, withoutOutput, executionId, untilNow }, context) {
      const { log, executions } = sandboxes.find(sessionId);
      const number = executionId === '' ? undefined : executions.find(executionId).spec.number;
      const query = { cursor: parseCursor(cursor), withoutOutput, number, untilNow };
      for await (const event of log.follow(query, context.signal)) yield { event };
    },
    getExecution: ({ request }) => ({ response: { execution: viewOf(executionOf(request)) } }),
    listExecutions({ request }) {
      const { sessionId, pageSize, pageToken } = required(request);
      const { executions } = sandboxOf(sessionId);
      const size = pageSize <= 0 ? 100 : Math.min(pageSize, pageLimit);
      const page = executions.list(pageToken === '' ? 0n : BigInt(pageToken), size + 1);
      const more = page.length > size;
      const shown = page.slice(0, size);
      const nextPageToken = more ? String(shown.at(-1)?.spec.number ?? '') : '';
      return { response: { executions: shown.map(viewOf), nextPageToken } };
    },
    async writeInput({ request }) {
      const { offset, data, end } = required(request);
      countPassed(data.length);
      const nextOffset = await executionOf(request).input.write(Number(offset), data, end);
      return { response: { nextOffset: BigInt(nextOffset) } };
    },
    async closeInput({ request }) {
      const { input, spec } = executionOf(request);
      if (!spec.inputOpen) {
        throw new DomainError('INPUT_NOT_OPEN', 'there is no input to close: it was started without input_open');
      }
      return { response: { inputBytes: BigInt(await input.end()) } };
    },
    signalExecution({ request }) {
      executionOf(request).signal(required(request).signal);
      return { response: {} };
    },
    cancelExecution({ request }) {
      executionOf(request).cancel();
      return { response: {} };
    },
    resizeTerminal({ request }) {
      const { running, terminal } = executionOf(request);
      if (!running) throw new DomainError('EXECUTION_ENDED', 'the execution has ended; its terminal is gone');
      terminal.resize(required(required(request).size));
      return { response: {} };
    },
    async openShell({ request }) {
      const { sessionId } = required(request);
      const shell = await awakeSandboxOf(sessionId).executions.shells.open(required(request));
      return { response: { shell: shellViewOf(sessionId, shell) } };
    },
    getShell({ request }) {
      const { sessionId, shellId } = required(request);
      return { response: { shell: shellViewOf(sessionId, sandboxOf(sessionId).executions.shells.find(shellId)) } };
    },
    listShells({ request }) {
      const { sessionId, pageSize, pageToken } = required(request);
      const size = pageSize <= 0 ? 100 : Math.min(pageSize, pageLimit);
      const page = sandboxOf(sessionId).executions.shells.list(pageToken === '' ? 0n : BigInt(pageToken), size + 1);
      const shown = page.slice(0, size);
      const nextPageToken = page.length > size ? String(shown.at(-1)?.spec.number ?? '') : '';
      return { response: { shells: shown.map((shell) => shellViewOf(sessionId, shell)), nextPageToken } };
    },
    async closeShell({ request }) {
      const { sessionId, shellId } = required(request);
      const shell = awakeSandboxOf(sessionId).executions.shells.find(shellId);
      await shell.close();
      return { response: { shell: shellViewOf(sessionId, shell) } };
    },
  };
}

function required<T>(request: T | undefined): T {
  if (request !== undefined) return request;
  throw new DomainError('INVALID_FIELD', 'request: missing', { field: 'request' });
}
