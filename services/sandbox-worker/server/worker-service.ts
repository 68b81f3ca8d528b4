import type { ServiceImpl } from '@connectrpc/connect';
import type { SessionRecord } from '../../../gen/assay/internal/v1/records_pb.js';
import type { WorkerService } from '../../../gen/assay/internal/v1/worker_pb.js';
import { SessionEndReason } from '../../../gen/assay/v1/session_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import { parseCursor } from '../log/log-cursor.ts';
import type { Sandboxes } from '../sandbox/sandboxes.ts';
import type { SessionSealer } from '../verification/session-sealer.ts';
import { createSampleCalls, type SampleCallDeps } from './sample-calls.ts';

const closedByCaller = { endReason: SessionEndReason.CLOSED_BY_CALLER, message: 'its owner closed it' };

/** What does not carry output: hot-streams.ts has the rest. */
export type WorkerHandlers = Omit<ServiceImpl<typeof WorkerService>, 'executeMany'>;

export function createWorkerService(
  sandboxes: Sandboxes,
  samples: SampleCallDeps,
  seal: SessionSealer,
): WorkerHandlers {
  return {
    ...createSampleCalls(samples),
    sealSubmission: ({ project, sessionId, requiredAssurance }, { signal }) =>
      seal(project, sessionId, requiredAssurance, signal),
    async createSandbox({ project, sessionId }) {
      await sandboxes.create(project, sessionId);
      return {};
    },
    async takeWarmSandbox({ record }) {
      const stored = await sandboxes.takeWarm(recordIn(record));
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
  };
}

function recordIn(record: SessionRecord | undefined): SessionRecord {
  if (record !== undefined) return record;
  throw new DomainError('INVALID_FIELD', 'record: missing', { field: 'record' });
}
