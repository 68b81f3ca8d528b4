import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import closeWithGrace from 'close-with-grace';
import { SessionEndReason } from '../../gen/assay/v1/session_pb.js';
import { ConfigError, readSecretFile } from '../shared/config.ts';
import { DomainError } from '../shared/domain-error.ts';
import { createLog, type Logger, warnOperator } from '../shared/log.ts';
import { serveMetrics } from '../shared/metrics-server.ts';
import { type Broker, connectBroker, readBrokerAuth } from '../shared/store/broker.ts';
import { createNatsSampleReader } from '../shared/store/nats-sample-store.ts';
import { createNatsSessionStore } from '../shared/store/nats-session-store.ts';
import { createNatsTranscriptStore } from '../shared/store/nats-transcript-store.ts';
import { createNatsWorkerStore } from '../shared/store/nats-worker-store.ts';
import { openTracing } from '../shared/tracing.ts';
import { createWorkShares, serviceBusyPart } from '../shared/work-shares.ts';
import { unknownSettings } from '../unknown-settings.ts';
import { createExecutionCgroups } from './cgroup/execution-cgroups.ts';
import { readWorkerConfig, type WorkerConfig } from './config.ts';
import { dropWorkerId, lockDataDirectory, workerIdOf } from './data-lock.ts';
import { createEngine } from './docker/docker-engine.ts';
import { createEnginePulse } from './docker/engine-pulse.ts';
import { createEndedMemory } from './execution/ended-memory.ts';
import { createSpoolBudget } from './execution/spool-budget.ts';
import { createUnreadPace } from './execution/unread-pace.ts';
import { checkNotForgotten } from './forgotten.ts';
import { releaseIfFull } from './host/disk-reserve.ts';
import { raiseHostLimits } from './host/host-limits.ts';
import { createWorkerHost } from './host/worker-host.ts';
import { createArchive } from './log/archive.ts';
import { createWorkerMetrics } from './metrics.ts';
import { createWorkerNetworks } from './network/worker-networks.ts';
import { launchThrough } from './program/program.ts';
import { type Registration, register } from './registration.ts';
import { createWorkerSamples } from './sample/worker-samples.ts';
import { createAllowedImages } from './sandbox/allowed-images.ts';
import { createBurial } from './sandbox/burial.ts';
import { createCaretaker } from './sandbox/caretaker.ts';
import { createGradingPauses } from './sandbox/grading-pauses.ts';
import { createPlaces } from './sandbox/places.ts';
import { createRecordKeeper } from './sandbox/record-keeper.ts';
import { createSandboxMaker } from './sandbox/sandbox-maker.ts';
import { createSandboxes, installationLabel } from './sandbox/sandboxes.ts';
import { createSessionImages } from './sandbox/session-images.ts';
import { createSlots } from './sandbox/slot.ts';
import { createWarmPool } from './sandbox/warm-pool.ts';
import { serveWorker } from './server/server.ts';
import { createManifests } from './submission/manifests.ts';
import { createWorkerVerifications } from './verification/worker-verifications.ts';
import { warmKinds } from './warm-pool-setting.ts';

const shutdownMs = 60_000;
/** For what is being made when the worker is told to stop. */
const beingMadeMs = 20_000;
/** For telling the broker that it stops. */
const tellingMs = 5_000;
/** For giving back the jobs of gradings. */
const givingBackMs = 15_000;

/** Waits for the work, or for so long. */
function within(ms: number, work: Promise<unknown> | undefined): Promise<unknown> {
  return Promise.race([work, delay(ms, undefined, { ref: false })]);
}

/** Ends what start began, once. Sandboxes are closed, or kept for the next worker, unless they are not its own any more. */
type Stop = (mode: 'close' | 'keep') => Promise<void>;

/** What a worker has before it starts. */
interface Beginning {
  readonly token: string;
  readonly guestPath: string;
  readonly broker: Broker;
  readonly workerId: string;
  readonly dataDirectory: string;
  readonly log: Logger;
}

async function start(config: WorkerConfig, beginning: Beginning): Promise<Stop> {
  const { token, guestPath, broker, workerId, dataDirectory, log } = beginning;
  let registration: Registration | undefined;
  const onEventLost = (error: unknown) => log.warn({ err: error }, 'an event could not be published');
  const sessionStore = createNatsSessionStore({ broker, onEventLost });
  const shares = createWorkShares({ busyPart: serviceBusyPart });
  const engine = createEngine({
    socketPath: config.ASSAY_DOCKER_SOCKET,
    templateDirectory: join(dataDirectory, 'templates'),
    installation: config.ASSAY_INSTALLATION,
    allowUnlimitedDisk: config.ASSAY_ALLOW_UNLIMITED_DISK === 'true',
    idmountPath: config.ASSAY_IDMOUNT_PATH,
    contended: () => shares.contended,
    layerCopies: { directory: join(dataDirectory, 'layers'), floorBytes: config.ASSAY_DISK_FLOOR_BYTES },
    log,
  });
  const networks = createWorkerNetworks(config, shares, log);
  await Promise.all([engine.ready(), networks.ready()]);
  engine.sweepCopies().catch((error) => log.warn({ err: error }, 'a sweep of copied layers did not finish'));
  const cgroups = createExecutionCgroups({ log });
  const manifests = createManifests({
    directory: join(dataDirectory, 'manifests'),
    socketPath: config.ASSAY_DOCKER_SOCKET,
    installation: config.ASSAY_INSTALLATION,
  });
  manifests.keepOnly(await engine.imageIds());
  const installation = config.ASSAY_INSTALLATION;
  const slots = createSlots(dataDirectory, guestPath);
  const workers = createNatsWorkerStore(broker);
  await checkNotForgotten({ workers, workerId, engine, networks, slots, installation, dataDirectory });
  const records = createRecordKeeper(sessionStore, workerId, log);
  const tracing = await openTracing('assay-sandbox-worker', process.env, log);
  const budget = createSpoolBudget(config.ASSAY_SPOOL_BYTES, log);
  const { meter, render } = createWorkerMetrics();
  const baseImage = config.ASSAY_BASE_IMAGE;
  const defaultLimits = {
    cpus: config.ASSAY_DEFAULT_CPUS,
    memoryBytes: config.ASSAY_DEFAULT_MEMORY_BYTES,
    diskBytes: config.ASSAY_DEFAULT_DISK_BYTES,
    pids: config.ASSAY_DEFAULT_PIDS,
  };
  const host = createWorkerHost(config, {
    ...{ engine, dataDirectory, defaultLimits, log },
    all: () => [...sandboxes.live, ...pool.waiting],
    arriving: () => sandboxes.arriving,
    changed: () => registration?.renew(),
  });
  const { admission } = host;
  const store = createNatsSampleReader(broker);
  const samples = createWorkerSamples(config, { engine, manifests, store, dataDirectory, admission, log });
  const limits = {
    executions: config.ASSAY_EXECUTIONS_PER_SESSION,
    shells: config.ASSAY_SHELLS_PER_SESSION,
    queued: config.ASSAY_QUEUED_PER_SHELL,
    queuedBytes: config.ASSAY_QUEUED_BYTES_PER_SESSION,
    keptBytes: config.ASSAY_OUTPUT_KEPT_BYTES,
    budget,
    memory: createEndedMemory({
      perSession: config.ASSAY_ENDED_IN_MEMORY_PER_SESSION,
      perWorker: config.ASSAY_ENDED_IN_MEMORY,
    }),
    pace: createUnreadPace(config.ASSAY_UNREAD_BYTES_PER_SECOND),
    meter,
    shares,
    tracing,
  };
  const maker = createSandboxMaker({ engine, cgroups, slots, limits, log });
  const kinds = warmKinds(config.ASSAY_WARM_POOL, baseImage, defaultLimits);
  const pool = createWarmPool({
    kinds,
    engine,
    maker,
    labels: { [installationLabel]: installation },
    changed: () => registration?.renew(),
    admission,
    log,
  });
  const capacity = config.ASSAY_WORKER_CAPACITY;
  const places = createPlaces(capacity, config.ASSAY_PROJECT_SHARE);
  const named = [baseImage, ...kinds.map(({ image }) => image), ...config.ASSAY_IMAGES];
  const images = createSessionImages({ engine, samples, records, baseImage, allowed: createAllowedImages(named) });
  const around = { engine, pool, records, slots, installation, log };
  const archive = createArchive({
    store: await createNatsTranscriptStore(broker, {
      keepMs: config.ASSAY_TRANSCRIPT_KEEP_SECONDS * 1_000,
      maxBytes: config.ASSAY_TRANSCRIPT_STORE_BYTES,
      replicas: config.ASSAY_NATS_REPLICAS,
    }),
    limitBytes: config.ASSAY_TRANSCRIPT_BYTES,
    patienceMs: config.ASSAY_TRANSCRIPT_PATIENCE_SECONDS * 1_000,
    shares,
    log,
  });
  const pauses = createGradingPauses();
  const burial = createBurial({ maker, records, archive, slots });
  const sandboxes = createSandboxes({
    ...{ ...around, images, maker, networks, burial, meter, baseImage, places, defaultLimits, admission },
    workerId,
    holdFor: pauses.holdFor,
  });
  const caretaker = createCaretaker({ ...around, sandboxes });
  await caretaker.reconcile();
  await networks.settle();
  const verifications = await createWorkerVerifications(config, {
    ...{
      broker,
      engine,
      manifests,
      samples,
      sandboxes,
      pauses,
      records,
      dataDirectory,
      workerId,
      defaultLimits,
      admission,
      meter,
      log,
    },
  });
  const { seal, validate } = verifications;
  const calls = { samples, validate, progressLines: config.ASSAY_PROGRESS_LINES };
  const server = await serveWorker(config.ASSAY_WORKER_LISTEN, token, sandboxes, calls, seal, meter, shares, log);
  const scraped = () => render({ budget, capacity, pool, host, live: () => sandboxes.live });
  const metricsListen = config.ASSAY_WORKER_METRICS_LISTEN;
  const metrics = metricsListen === undefined ? undefined : await serveMetrics(metricsListen, scraped, log);
  const pulse = createEnginePulse({ engine, log });
  let replaced = false;
  let stopping: Promise<void> | undefined;
  registration = await register({
    store: workers,
    workerId,
    address: config.ASSAY_WORKER_ADVERTISE ?? server.address,
    capacity,
    capabilities: [
      ...engine.capabilities,
      ...(cgroups.kind === 'none' ? [] : ['execution_cgroups']),
      ...(pool.capacity === 0 ? [] : ['warm_pool']),
      ...networks.capabilities,
      ...verifications.capabilities,
    ],
    load: () => sandboxes.size,
    pressure: () => host.pressure.reason,
    shortages: host.shortages,
    engineProblem: () => pulse.problem,
    warm: pool,
    replaced({ forgotten }) {
      const why = forgotten ? 'the operator has forgotten this worker' : 'another worker has taken over this worker id';
      log.fatal({ worker_id: workerId }, `${why}; removing the sandboxes of this one`);
      replaced = true;
      records.giveUp();
      void stop('keep')
        .then(() => forgotten && dropWorkerId(dataDirectory))
        .catch((error) => log.fatal({ err: error }, 'what is left here could not all be removed'))
        .then(() => process.exit(1));
    },
    log,
  });
  pulse.start(registration.renew);
  caretaker.start();
  const watch = host.watch(sandboxes);
  await verifications.start();
  log.info({ address: server.address, worker_id: workerId, sandboxes: sandboxes.size }, 'ready');

  function stop(mode: 'close' | 'keep'): Promise<void> {
    stopping ??= putAway(mode);
    return stopping;
  }

  async function putAway(mode: 'close' | 'keep'): Promise<void> {
    // A broker or an engine that does not answer must not keep the containers from being removed in time.
    await within(tellingMs, registration?.drain());
    registration?.stop();
    pulse.stop();
    await within(givingBackMs, verifications.stop());
    await within(tellingMs, caretaker.stop());
    watch.stop();
    archive.stop();
    await within(beingMadeMs, sandboxes.takeNoMore());
    await pool.drain();
    if (replaced) await sandboxes.abandon('its worker has lost it to another, or was forgotten');
    else if (mode === 'close') {
      const why = { endReason: SessionEndReason.WORKER_STOPPED, message: 'its worker was stopped' };
      const closing = [...sandboxes.live].map(({ project, sessionId }) => sandboxes.close(project, sessionId, why));
      await Promise.allSettled(closing);
    }
    const error = new DomainError('SHUTTING_DOWN', 'the worker is stopping; attach again from the offsets you have');
    await sandboxes.handOver(error);
    await networks.close().catch((error) => log.error({ err: error }, 'packet rules could not be removed'));
    await server.close();
    await verifications.close();
    await metrics?.close();
    await tracing?.close();
    await broker.close();
  }
  return stop;
}

async function main(config: WorkerConfig): Promise<void> {
  const log = createLog('sandbox-worker', config.ASSAY_LOG_LEVEL);
  for (const sentence of unknown) warnOperator(log, sentence);
  const dataDirectory = resolve(config.ASSAY_DATA_DIR);
  const files = {
    token: readSecretFile(config.ASSAY_WORKER_TOKEN_FILE, 'ASSAY_WORKER_TOKEN_FILE'),
    guestPath: resolve(config.ASSAY_GUEST_PATH),
  };
  const brokerAuth = readBrokerAuth(config.ASSAY_NATS_AUTH_FILE);
  releaseIfFull(dataDirectory);
  raiseHostLimits(log);
  if (config.ASSAY_LAUNCHER_PATH !== undefined) launchThrough(config.ASSAY_LAUNCHER_PATH);
  await lockDataDirectory(dataDirectory);
  // Sockets are named relative to here, because a socket's path may not be long.
  process.chdir(dataDirectory);
  // What is mounted into a sandbox must be readable by its user.
  process.umask(0o022);
  const workerId = workerIdOf(dataDirectory);
  const broker = await connectBroker({
    url: config.ASSAY_NATS_URL,
    ...brokerAuth,
    name: workerId,
    replicas: config.ASSAY_NATS_REPLICAS,
    onWaiting: (message) => warnOperator(log, message),
  });
  const starting = start(config, { ...files, broker, workerId, dataDirectory, log });
  // Not only when it has started: a worker that is told to stop before has things to put away too.
  const cutShort = (why: object) => log.fatal(why, 'stopping was cut short; the next start removes what is left');
  const cuts = {
    onTimeout: (delayMs: number) => cutShort({ delay_ms: delayMs }),
    onSecondSignal: (signal: string) => cutShort({ signal }),
    onSecondError: (err: unknown) => cutShort({ err }),
  };
  closeWithGrace({ delay: shutdownMs, logger: false, ...cuts }, async ({ signal, err }) => {
    if (err !== undefined) log.fatal({ err }, 'stopping after an error');
    else log.info({ signal }, 'stopping');
    try {
      const stop = await starting;
      await stop(err === undefined ? config.ASSAY_ON_STOP : 'keep');
    } catch (error) {
      cutShort({ err: error });
      throw error;
    }
  });
  await starting;
}

const unknown = unknownSettings(process.env);
try {
  await main(readWorkerConfig(process.env));
} catch (error) {
  const misconfigured = error instanceof ConfigError;
  const message = misconfigured || error instanceof DomainError ? error.message : (error as Error).stack;
  // One that is required may be missing because it was misspelt.
  const said = [`sandbox-worker: ${message}`, ...(misconfigured ? unknown.map((sentence) => `  ${sentence}`) : [])];
  process.stderr.write(`${said.join('\n')}\n`);
  process.exit(misconfigured ? ConfigError.exitCode : 1);
}
