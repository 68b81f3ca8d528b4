import { readFileSync } from 'node:fs';
import {
  KeyRecordSchema,
  SessionRecordSchema,
  VerificationRecordSchema,
  WorkerRecordSchema,
} from '../../gen/assay/internal/v1/records_pb.js';
import { ExecutionService } from '../../gen/assay/v1/execution_pb.js';
import { KeyService } from '../../gen/assay/v1/key_pb.js';
import { SampleService } from '../../gen/assay/v1/sample_pb.js';
import { ServerService } from '../../gen/assay/v1/server_pb.js';
import { SessionService } from '../../gen/assay/v1/session_pb.js';
import { ShellService } from '../../gen/assay/v1/shell_pb.js';
import { VerificationService } from '../../gen/assay/v1/verification_pb.js';
import { WorkerService } from '../../gen/assay/v1/worker_pb.js';
import { ServerReflection } from '../../gen/grpc/reflection/v1/reflection_pb.js';
import { ServerReflection as ServerReflectionAlpha } from '../../gen/grpc/reflection/v1alpha/reflection_pb.js';
import { Health } from '../../gen/health/v1/health_pb.js';
import { type Logger, warnOperator } from '../shared/log.ts';
import { serveMetrics } from '../shared/metrics-server.ts';
import { type Broker, connectBroker } from '../shared/store/broker.ts';
import { endedStream } from '../shared/store/bucket-spec.ts';
import { watchArchive } from '../shared/store/nats-archive-watch.ts';
import { createNatsKeyStore } from '../shared/store/nats-key-store.ts';
import { createNatsSampleStore } from '../shared/store/nats-sample-store.ts';
import { createNatsSessionArchive } from '../shared/store/nats-session-archive.ts';
import { createNatsSessionStore } from '../shared/store/nats-session-store.ts';
import { createNatsTranscriptReader } from '../shared/store/nats-transcript-store.ts';
import { createNatsValidationStore } from '../shared/store/nats-validation-store.ts';
import { createNatsVerificationStore } from '../shared/store/nats-verification-store.ts';
import { createNatsWorkerStore } from '../shared/store/nats-worker-store.ts';
import { createRecordView } from '../shared/store/record-view.ts';
import { sideStoreRooms, storeRooms } from '../shared/store/store-room.ts';
import type { Tracing } from '../shared/tracing.ts';
import { verificationOf } from '../shared/verification/verification-state.ts';
import { createWorkShares, mebibyteMs, serviceBusyPart } from '../shared/work-shares.ts';
import { createAdmission } from './auth/admission.ts';
import { createAuthenticator } from './auth/authenticator.ts';
import { ensureBootstrapKey } from './auth/bootstrap-key.ts';
import { createKeyQuota } from './auth/key-quota.ts';
import { requirementsByMethod, scopeTable } from './auth/scope-table.ts';
import type { SessionsConfig } from './config.ts';
import { createExecutionStreams } from './execution/execution-stream.ts';
import { createExecutionTarget } from './execution/execution-target.ts';
import { createManyCalls } from './execution/many-calls.ts';
import { createUnreadBudgets } from './execution/unread-budget.ts';
import { createMetrics } from './metrics.ts';
import { createHotPath } from './relay/hot-path.ts';
import { createUnaryPath, serving } from './relay/unary-path.ts';
import { createCallInterceptor } from './rpc/call-interceptor.ts';
import { createCallLimits } from './rpc/call-limits.ts';
import { createCallRecords } from './rpc/call-record.ts';
import { createExecutionService } from './rpc/execution-service.ts';
import { createCallGate } from './rpc/gated-call.ts';
import { createHealthService } from './rpc/health-service.ts';
import { createKeyService } from './rpc/key-service.ts';
import { createReflectionServices } from './rpc/reflection-service.ts';
import { createRequestBodies } from './rpc/request-body.ts';
import { createSampleService } from './rpc/sample-service.ts';
import { createServerService } from './rpc/server-service.ts';
import { createSessionService } from './rpc/session-service.ts';
import { createShellService } from './rpc/shell-service.ts';
import { createVerificationService } from './rpc/verification-service.ts';
import { createWorkerService } from './rpc/worker-service.ts';
import { createSampleBuilder } from './sample/build-sample.ts';
import { createDatasetIndex } from './sample/dataset-index.ts';
import { createContentProvider } from './sample/provide-content.ts';
import { createSampleShelf } from './sample/sample-shelf.ts';
import { createSampleValidator } from './sample/validate-sample.ts';
import { createPageBudget } from './server/page-budget.ts';
import { createPages } from './server/pages.ts';
import { openPublicServer } from './server/public-server.ts';
import { createReadiness } from './server/readiness.ts';
import { createRequestHandler } from './server/request-handler.ts';
import { keepArchive } from './session/archive-keeper.ts';
import { createSessionChanges } from './session/change-session.ts';
import { keepClosing } from './session/closing-keeper.ts';
import { createSessionCreator } from './session/create-session.ts';
import { createEndedIndex } from './session/ended-index.ts';
import { createEndedSessions } from './session/ended-sessions.ts';
import { createSessionForker } from './session/fork-session.ts';
import { createSessionLister } from './session/list-sessions.ts';
import { createLiveRoom } from './session/live-room.ts';
import { createRequestOnce } from './session/request-once.ts';
import { createSandboxStart } from './session/sandbox-start.ts';
import { createSessionDirectory } from './session/session-directory.ts';
import { createSessionPlanner } from './session/session-plan.ts';
import { createSessionQuota } from './session/session-quota.ts';
import { sessionOf } from './session/session-view.ts';
import { createWarmStart } from './session/warm-start.ts';
import { createEndedLog } from './transcript/ended-log.ts';
import { createSessionFollower } from './transcript/session-follower.ts';
import { createCursors } from './validation/cursor.ts';
import { createPageTokens } from './validation/page-token.ts';
import { createVerificationDirectory } from './verification/verification-directory.ts';
import { openVerifications } from './verification/verifications.ts';
import { createWorkerForgetter } from './worker/forget-worker.ts';
import { createSharedStreams } from './worker/shared-stream.ts';
import { createWorkerClient } from './worker/worker-client.ts';
import { createWorkerDirectory, workerState } from './worker/worker-directory.ts';
import { createWorkerLines } from './worker/worker-line.ts';
import { createWorkerLinks } from './worker/worker-link.ts';
import { createWorkerProbe } from './worker/worker-probe.ts';

/** The running service. */
export interface SessionsService {
  readonly port: number;
  /** Undefined: metrics are not served. */
  readonly metricsPort: number | undefined;
  /** Resolves with an error if the broker's connection ended for good without being asked to. */
  readonly broken: Promise<Error | undefined>;
  /** Health NOT_SERVING, no new connections, calls finished, streams ended, broker closed: in this order. */
  close(): Promise<void>;
}

const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
  version: string;
};

export interface Clock {
  /** Milliseconds that only ever grow, for how long things take. */
  now(): number;
  /** The time of day, for what people read. */
  nowMs(): number;
}

const systemClock: Clock = { now: () => performance.now(), nowMs: Date.now };

/** Puts the service together. Nothing else happens here. */
export async function startSessions(
  config: SessionsConfig,
  log: Logger,
  clock = systemClock,
  tracing?: Tracing,
): Promise<SessionsService> {
  const broker = await connectBroker({
    ...config.nats,
    name: 'assay-sessions',
    sizes: {
      assay_sessions: config.sessionBytes,
      assay_verifications: config.verificationBytes,
      [endedStream.name]: config.endedSessionBytes,
    },
    onWaiting: (message) => warnOperator(log, message),
  });
  const records = await openRecords(broker, config, log, clock.now);
  const { limits } = config;
  const shares = createWorkShares({ busyPart: serviceBusyPart, mebibyteMs });
  const links = createWorkerLinks();
  const client = createWorkerClient(links, config.workerToken);
  const shared = createSharedStreams(links, config.workerToken);
  const openLine = createWorkerLines(links, config.workerToken);
  const { sessions, workers, keys, keyView } = records;
  const { nowMs } = clock;
  const tokens = createPageTokens(config.workerToken);
  const datasets = createDatasetIndex({
    root: config.datasets,
    limits: { bytes: limits.sampleBytes, files: limits.sampleFiles },
    onProblem: (problem) => log.warn({ problem }, 'a folder is not a sample'),
    onError: (error) => log.warn({ err: error }, 'the datasets cannot be read or watched; looking again'),
  });
  const keeping = { ...config.sampleKeeping, replicas: config.nats.replicas };
  const shelf = createSampleShelf(await createNatsSampleStore(broker, keeping));
  const build = createSampleBuilder({ workers, client, shelf });
  const validations = createNatsValidationStore(broker);
  const validate = createSampleValidator({ workers, client, shelf, validations, nowMs });
  const { createMs, buildMs } = limits;
  const start = createSandboxStart({ sessions, workers, client, createMs, buildMs, nowMs });
  const target = createExecutionTarget(sessions, workers);
  const streams = createExecutionStreams({
    ...{ sessions, target, client, openLine, shared, limits },
    unread: createUnreadBudgets(),
  });

  const verifying = openVerifications({
    ...{ broker, sessions, workers, client, target, tokens, limits, nowMs, log },
    verifications: records.verifications,
    provide: createContentProvider(datasets, shelf),
    sweepMs: config.jobSweepMs,
  });

  const metrics = createMetrics({
    sessionStates: () => [...sessions.all()].map(({ value }) => sessionOf(value).state),
    verificationStates: () => [...records.verifications.all()].map(({ value }) => verificationOf(value).state),
    workerStates: () => workers.all().map(workerState),
    workerLinks: () => links.size,
  });
  const calls = createCallRecords(log, metrics, tracing);
  const requirements = requirementsByMethod();
  const { denialsPerSecond } = limits;
  const authenticator = createAuthenticator({ keys, view: keyView, requirements, denialsPerSecond });
  const admission = createAdmission(authenticator, limits);
  const bodies = createRequestBodies(limits);
  const callLimits = createCallLimits(limits);
  const many = createManyCalls({ admission, records: calls, streams, shares });
  const hotPath = createHotPath({ admission, records: calls, streams, many, bodies, shares });
  const readiness = createReadiness({
    connected: () => broker.connected,
    rooms: () => storeRooms(broker),
    sideRooms: () => sideStoreRooms(broker),
    workers,
    probeWorkers: createWorkerProbe({ workers, client, log }),
  });
  await readiness.look();
  const served = scopeTable.map(([service]) => service);
  const reflection = createReflectionServices(served);
  const shutdown = new AbortController();
  const warmStart = createWarmStart(client, sessions, limits.createMs);
  const once = createRequestOnce(sessions);
  const quota = createSessionQuota(sessions, limits.sessionsPerProject, records.liveRoom);
  const making = { sessions, workers, client, once, quota, start, limits, nowMs };
  const create = createSessionCreator({
    ...making,
    warmStart,
    plan: createSessionPlanner(datasets, shelf, limits),
  });
  const fork = createSessionForker(making);
  const list = createSessionLister({ sessions, ended: records.ended, workers, tokens });
  const changes = createSessionChanges({ sessions, workers, client, maxTtlMs: limits.ttlMs, nowMs });
  const stopClosing = keepClosing({ sessions, workers, client, everyMs: config.archiveSweepMs, now: clock.now, log });
  const transcripts = createNatsTranscriptReader(broker);
  const cursors = createCursors(tokens);
  const ended = createEndedLog({ transcripts, verifications: records.verifications, shares });
  const follow = createSessionFollower({ sessions, workers, client, ended, cursors, shares });
  const services = [
    serving(SessionService, createSessionService({ sessions, workers, create, fork, list, changes, follow, limits })),
    serving(
      ExecutionService,
      createExecutionService({ sessions, streams, many, target, follow, client, shares, tokens, limits }),
    ),
    serving(SampleService, createSampleService({ index: datasets, tokens, build, validate, validations })),
    serving(ShellService, createShellService({ sessions, target, client, shares, tokens })),
    serving(VerificationService, createVerificationService(verifying)),
    serving(
      KeyService,
      createKeyService({ keys, view: keyView, quota: createKeyQuota(keyView, limits.keysPerProject), tokens, nowMs }),
    ),
    serving(ServerService, createServerService({ version, limits, workers })),
    serving(
      WorkerService,
      createWorkerService({ workers, tokens, forget: createWorkerForgetter(workers, sessions, nowMs) }),
    ),
  ];
  const unaryPath = createUnaryPath({
    ...{ admission, records: calls, services, bodies, callLimits, shares },
    shutdownSignal: shutdown.signal,
  });
  const handler = createRequestHandler({
    routes(router) {
      for (const { service, handlers } of services) router.service(service, handlers);
      router.service(Health, createHealthService(readiness, new Set(served.map(({ typeName }) => typeName))));
      router.service(ServerReflection, reflection.v1);
      router.service(ServerReflectionAlpha, reflection.v1alpha);
    },
    interceptor: createCallInterceptor(callLimits, shares),
    openCall: createCallGate(admission, calls),
    bodies,
    requestBytes: limits.requestBytes,
    shutdownSignal: shutdown.signal,
    pages: createPages(readiness),
    pageBudget: createPageBudget(limits),
    onError: (error) => log.error({ err: error }, 'a page failed'),
  });
  const { metricsListen } = config;
  const scraped = metricsListen === undefined ? undefined : await serveMetrics(metricsListen, metrics.render, log);
  const server = await openPublicServer({ hotPath, unaryPath, handler, limits, listen: config.listen, shutdown });
  let closing = false;
  return {
    port: server.port,
    metricsPort: scraped?.port,
    broken: broker.closed.then((error) =>
      closing ? undefined : (error ?? new Error('the broker closed the connection')),
    ),
    async close() {
      closing = true;
      readiness.stop();
      await server.close();
      await scraped?.close();
      verifying.close();
      stopClosing();
      datasets.close();
      links.close();
      records.close();
      await broker.close();
    },
  };
}

async function openRecords(broker: Broker, config: SessionsConfig, log: Logger, now: Clock['now']) {
  const onError = (error: unknown): void => log.warn({ err: error }, 'a watch of the store broke; watching again');
  const keyView = createRecordView({ broker, bucket: 'assay_keys', schema: KeyRecordSchema, now, onError });
  const sessionView = createRecordView({ broker, bucket: 'assay_sessions', schema: SessionRecordSchema, now, onError });
  const workerView = createRecordView({ broker, bucket: 'assay_workers', schema: WorkerRecordSchema, now, onError });
  const verificationView = createRecordView({
    ...{ broker, bucket: 'assay_verifications', schema: VerificationRecordSchema, now, onError },
  });
  const keys = createNatsKeyStore(broker);
  const onEventLost = (error: unknown, id: string): void => log.warn({ id, err: error }, 'an event was lost');
  const archive = createNatsSessionArchive(broker);
  const sessionStore = createNatsSessionStore({ broker, archive, onEventLost });
  const index = createEndedIndex();
  const liveRoom = createLiveRoom();
  const archiveWatch = watchArchive({ broker, tell: index.add, onError });
  const ended = createEndedSessions(archive, index, archiveWatch);
  const sessions = createSessionDirectory(sessionStore, sessionView, ended);
  const verifications = createVerificationDirectory(
    createNatsVerificationStore({ broker, onEventLost }),
    verificationView,
  );
  const workers = createWorkerDirectory({ view: workerView, workers: createNatsWorkerStore(broker), broker, now });
  if (config.bootstrapKey !== undefined) await ensureBootstrapKey(keys, config.bootstrapKey);
  const views = [keyView, sessionView, workerView, verificationView];
  await Promise.all(views.map((view) => view.whenWarm()));
  const everyMs = config.archiveSweepMs;
  const stopKeeping = keepArchive({
    ...{ sessions, store: sessionStore, liveRoom, archive, index, everyMs, now, log },
  });
  const close = (): void => {
    stopKeeping();
    archiveWatch.stop();
    for (const view of views) view.close();
  };
  return { keys, keyView, sessions, ended, liveRoom, verifications, workers, close };
}
