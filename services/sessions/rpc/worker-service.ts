import type { HandlerContext, ServiceImpl } from '@connectrpc/connect';
import type { WorkerService } from '../../../gen/assay/v1/worker_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import { requireCaller } from '../auth/caller.ts';
import { operatorProject } from '../auth/project.ts';
import { checkWorkerId } from '../validation/identifier.ts';
import type { PageTokens } from '../validation/page-token.ts';
import { checkPageSize } from '../validation/session-request.ts';
import { drainWorker } from '../worker/drain-worker.ts';
import { type WorkerForgetter, workerNotFound } from '../worker/forget-worker.ts';
import { type WorkerDirectory, workerView } from '../worker/worker-directory.ts';

export interface WorkerServiceDeps {
  readonly workers: WorkerDirectory;
  readonly tokens: PageTokens;
  readonly forget: WorkerForgetter;
}

const query = 'workers';

export function createWorkerService({ workers, tokens, forget }: WorkerServiceDeps): ServiceImpl<typeof WorkerService> {
  return {
    listWorkers(request) {
      const size = checkPageSize(request.pageSize);
      const after = request.pageToken === '' ? '' : tokens.open(query, request.pageToken);
      const rest = workers
        .all()
        .filter(({ record }) => record.workerId > after)
        .sort((a, b) => (a.record.workerId < b.record.workerId ? -1 : 1));
      const page = rest.slice(0, size);
      const last = page.at(-1)?.record.workerId;
      const nextPageToken = last === undefined || rest.length <= size ? '' : tokens.make(query, last);
      return { workers: page.map(workerView), nextPageToken };
    },
    async getWorker({ workerId }) {
      checkWorkerId(workerId);
      const found = await workers.find(workerId);
      if (found === undefined || found.record.forgotten) throw workerNotFound(workerId);
      return { worker: workerView(found) };
    },
    async drainWorker({ workerId, undo }, context) {
      requireOperator(context, 'drains');
      checkWorkerId(workerId);
      return { worker: workerView(await drainWorker(workers, workerId, !undo)) };
    },
    async forgetWorker({ workerId }, context) {
      requireOperator(context, 'forgets');
      checkWorkerId(workerId);
      return { lostSessionCount: await forget(workerId) };
    },
  };
}

/** A worker has sessions of every project. */
function requireOperator(context: HandlerContext, does: string): void {
  if (requireCaller(context).project === operatorProject) return;
  const message = `only an admin key of the project ${operatorProject} ${does} workers; use one`;
  throw new DomainError('SCOPE_MISSING', message, { scope: 'admin' });
}
