import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import closeWithGrace from 'close-with-grace';
import { ConfigError, readConfig, readSecretFile } from '../shared/config.ts';
import { DomainError } from '../shared/domain-error.ts';
import { createLog, type Logger } from '../shared/log.ts';
import { type Broker, connectBroker, readBrokerAuth } from '../shared/store/broker.ts';
import { createNatsSampleReader } from '../shared/store/nats-sample-store.ts';
import { createNatsSessionStore } from '../shared/store/nats-session-store.ts';
import { createNatsTranscriptStore } from '../shared/store/nats-transcript-store.ts';
import { createNatsWorkerStore } from '../shared/store/nats-worker-store.ts';
import { openTracing } from '../shared/tracing.ts';
import { createExecutionCgroups } from './cgroup/execution-cgroups.ts';
import { type WorkerConfig, workerConfig } from './config.ts';
import { dropWorkerId, lockDataDirectory, workerIdOf } from './data-lock.ts';
import { createEngine } from './docker/docker-engine.ts';
import { createSpoolBudget } from './execution/spool-budget.ts';
import { createUnreadPace } from './execution/unread-pace.ts';
import { checkNotForgotten } from './forgotten.ts';
import { createArchive } from './log/archive.ts';
import { createWorkerMetrics } from './metrics.ts';
import { createWorkerNetworks } from './network/worker-networks.ts';
import { register } from './registration.ts';
import { createWorkerSamples } from './sample/worker-samples.ts';
import { createBurial } from './sandbox/burial.ts';
import { createCaretaker } from './sandbox/caretaker.ts';
import { createRecordKeeper } from './sandbox/record-keeper.ts';
import { createSandboxMaker } from './sandbox/sandbox-maker.ts';
import { createSandboxes, installationLabel } from './sandbox/sandboxes.ts';
import { createSessionImages } from './sandbox/session-images.ts';
import { createSlots } from './sandbox/slot.ts';
import { createWarmPool } from './sandbox/warm-pool.ts';
import { serveMetrics } from './server/metrics-server.ts';
import { serveWorker } from './server/server.ts';
import { createManifests } from './submission/manifests.ts';
import { createWorkerVerifications } from './verification/worker-verifications.ts';
import { warmKinds } from './warm-pool-setting.ts';

const shutdownMs = 60_000;
/** For what is being made when the worker is told to stop. */
const beingMadeMs = 20_000;

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
  const onEventLost = (error: unknown) => log.warn({ err: error }, 'an event could not be published');
  const sessionStore = createNatsSessionStore({ broker, onEventLost });
  const engine = createEngine({
    socketPath: config.ASSAY_DOCKER_SOCKET,
    templateDirectory: join(dataDirectory, 'templates'),
    allowUnlimitedDisk: config.ASSAY_ALLOW_UNLIMITED_DISK === 'true',
    log,
  });
  const networks = createWorkerNetworks(config, log);
  await Promise.all([engine.ready(), networks.ready()]);
  const cgroups = createExecutionCgroups({ log });
  const manifests = createManifests({
    directory: join(dataDirectory, 'manifests'),
    socketPath: config.ASSAY_DOCKER_SOCKET,
  });
  manifests.keepOnly(await engine.imageIds());
  const store = createNatsSampleReader(broker);
  const samples = createWorkerSamples(config, { engine, manifests, store, dataDirectory, log });
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
  const limits = {
    executions: config.ASSAY_EXECUTIONS_PER_SESSION,
    shells: config.ASSAY_SHELLS_PER_SESSION,
    queued: config.ASSAY_QUEUED_PER_SHELL,
    queuedBytes: config.ASSAY_QUEUED_BYTES_PER_SESSION,
    keptBytes: config.ASSAY_OUTPUT_KEPT_BYTES,
    budget,
    pace: createUnreadPace(config.ASSAY_UNREAD_BYTES_PER_SECOND),
    meter,
    tracing,
  };
  const maker = createSandboxMaker({ engine, cgroups, slots, limits, log });
  const pool = createWarmPool({
    kinds: warmKinds(config.ASSAY_WARM_POOL, baseImage, defaultLimits),
    engine,
    maker,
    labels: { [installationLabel]: installation },
    changed: () => registration.renew(),
    log,
  });
  const capacity = config.ASSAY_WORKER_CAPACITY;
  const images = createSessionImages({ engine, samples, records, baseImage });
  const around = { engine, pool, records, slots, installation, log };
  const archive = createArchive({
    store: await createNatsTranscriptStore(broker, {
      keepMs: config.ASSAY_TRANSCRIPT_KEEP_SECONDS * 1_000,
      maxBytes: config.ASSAY_TRANSCRIPT_STORE_BYTES,
      replicas: config.ASSAY_NATS_REPLICAS,
    }),
    limitBytes: config.ASSAY_TRANSCRIPT_BYTES,
    patienceMs: config.ASSAY_TRANSCRIPT_PATIENCE_SECONDS * 1_000,
    log,
  });
  const burial = createBurial({ maker, records, archive, slots });
  const sandboxes = createSandboxes({
    ...{ ...around, images, maker, networks, burial, meter, baseImage, capacity, defaultLimits },
  });
  const caretaker = createCaretaker({ ...around, sandboxes });
  await caretaker.reconcile();
  await networks.settle();
  const verifications = await createWorkerVerifications(config, {
    ...{ broker, engine, manifests, samples, sandboxes, records, dataDirectory, workerId, defaultLimits, meter, log },
  });
  const { seal, validate } = verifications;
  const calls = { samples, validate, progressLines: config.ASSAY_PROGRESS_LINES };
  const server = await serveWorker(config.ASSAY_WORKER_LISTEN, token, sandboxes, calls, seal, meter, log);
  const scraped = () => render({ budget, capacity, pool, live: () => sandboxes.live });
  const metricsListen = config.ASSAY_WORKER_METRICS_LISTEN;
  const metrics = metricsListen === undefined ? undefined : await serveMetrics(metricsListen, scraped, log);
  let replaced = false;
  let stopping: Promise<void> | undefined;
  const registration = await register({
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
  caretaker.start();
  await verifications.start();
  log.info({ address: server.address, worker_id: workerId, sandboxes: sandboxes.size }, 'ready');

  function stop(mode: 'close' | 'keep'): Promise<void> {
    stopping ??= putAway(mode);
    return stopping;
  }

  async function putAway(mode: 'close' | 'keep'): Promise<void> {
    await registration.drain();
    registration.stop();
    await verifications.stop();
    await caretaker.stop();
    // An engine that does not answer holds up nobody for long.
    await Promise.race([sandboxes.takeNoMore(), delay(beingMadeMs, undefined, { ref: false })]);
    await pool.drain();
    if (replaced) await sandboxes.abandon('its worker has lost it to another, or was forgotten');
    else if (mode === 'close') {
      const why = { reason: 'WORKER_STOPPED', message: 'its worker was stopped' };
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
  const dataDirectory = resolve(config.ASSAY_DATA_DIR);
  const files = {
    token: readSecretFile(config.ASSAY_WORKER_TOKEN_FILE, 'ASSAY_WORKER_TOKEN_FILE'),
    guestPath: resolve(config.ASSAY_GUEST_PATH),
  };
  const brokerAuth = readBrokerAuth(config.ASSAY_NATS_AUTH_FILE);
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

try {
  await main(readConfig(workerConfig, process.env));
} catch (error) {
  const message = error instanceof ConfigError || error instanceof DomainError ? error.message : (error as Error).stack;
  process.stderr.write(`sandbox-worker: ${message}\n`);
  process.exit(error instanceof ConfigError ? ConfigError.exitCode : 1);
}
