import type { Logger } from '../../shared/log.ts';
import type { Broker } from '../../shared/store/broker.ts';
import { createNatsJobQueue } from '../../shared/store/nats-job-queue.ts';
import { createNatsResultReader } from '../../shared/store/nats-result-store.ts';
import { createNatsSubmissionLookup } from '../../shared/store/submission-objects.ts';
import type { Limits } from '../config.ts';
import type { ExecutionTarget } from '../execution/execution-target.ts';
import type { VerificationServiceDeps } from '../rpc/verification-service.ts';
import type { ContentProvider } from '../sample/provide-content.ts';
import type { SessionDirectory } from '../session/session-directory.ts';
import type { PageTokens } from '../validation/page-token.ts';
import type { WorkerClient } from '../worker/worker-client.ts';
import type { WorkerDirectory } from '../worker/worker-directory.ts';
import { keepEvents } from './event-keeper.ts';
import { keepJobs } from './job-keeper.ts';
import { createVerificationLister } from './list-verifications.ts';
import { createRegrader } from './regrade-submission.ts';
import { keepRoom } from './room-keeper.ts';
import { createVerificationStarter } from './start-verification.ts';
import type { VerificationDirectory } from './verification-directory.ts';
import { createVerificationOnce } from './verification-once.ts';
import { createVerificationQuota } from './verification-quota.ts';
import { createVerificationViews } from './verification-view.ts';
import { createVerificationWatcher } from './watch-verification.ts';

export interface VerificationsDeps {
  readonly broker: Broker;
  readonly verifications: VerificationDirectory;
  readonly sessions: SessionDirectory;
  readonly workers: WorkerDirectory;
  readonly client: WorkerClient;
  readonly target: ExecutionTarget;
  readonly tokens: PageTokens;
  readonly provide: ContentProvider;
  readonly limits: Limits;
  readonly sweepMs: number;
  readonly nowMs: () => number;
  readonly log: Logger;
}

/** Puts together what the service does for verifications. */
export function openVerifications(deps: VerificationsDeps): VerificationServiceDeps & { close(): void } {
  const { broker, verifications, sessions, workers, client, target, tokens, provide, limits, nowMs, log } = deps;
  const queue = createNatsJobQueue(broker);
  const once = createVerificationOnce({
    verifications,
    queue,
    quota: createVerificationQuota(verifications, limits.verificationsPerProject),
    onUnqueued: (error, id) => log.warn({ verification_id: id, err: error }, 'a job could not be queued; it will be'),
  });
  const { sealMs } = limits;
  const everyMs = deps.sweepMs;
  const sweeps = [
    keepJobs({ verifications, queue, sessions, everyMs, log }),
    keepEvents({ verifications, everyMs, log }),
    keepRoom({ verifications, everyMs, log }),
  ];
  return {
    ...{ verifications, sessions, nowMs },
    views: createVerificationViews(createNatsResultReader(broker)),
    start: createVerificationStarter({ verifications, sessions, workers, target, client, once, sealMs, nowMs }),
    regrade: createRegrader({ verifications, once, isKept: createNatsSubmissionLookup(broker), provide, nowMs }),
    list: createVerificationLister(verifications, tokens),
    watch: createVerificationWatcher(verifications),
    close() {
      for (const end of sweeps) end();
    },
  };
}
