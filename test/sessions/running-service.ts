import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createClient, type Interceptor, type Transport } from '@connectrpc/connect';
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from '@connectrpc/connect-node';
import { vi } from 'vitest';
import { ExecutionService } from '../../gen/assay/v1/execution_pb.js';
import { KeyService, type Scope } from '../../gen/assay/v1/key_pb.js';
import { SampleService } from '../../gen/assay/v1/sample_pb.js';
import { ServerService } from '../../gen/assay/v1/server_pb.js';
import { SessionService } from '../../gen/assay/v1/session_pb.js';
import { VerificationService } from '../../gen/assay/v1/verification_pb.js';
import { WorkerService } from '../../gen/assay/v1/worker_pb.js';
import { readSessionsConfig, type SessionsConfig } from '../../services/sessions/config.ts';
import { type Clock, type SessionsService, startSessions } from '../../services/sessions/service.ts';
import { createLog, type Logger } from '../../services/shared/log.ts';
import { type Broker, connectBroker } from '../../services/shared/store/broker.ts';
import { createNatsSessionStore } from '../../services/shared/store/nats-session-store.ts';
import { createNatsWorkerStore } from '../../services/shared/store/nats-worker-store.ts';
import type { SessionStore } from '../../services/shared/store/session-store.ts';
import type { WorkerStore } from '../../services/shared/store/worker-store.ts';
import { getPage } from '../http-page.ts';
import { runDirectory } from '../run.ts';
import { type NatsProcess, startNats } from '../shared/store/nats-process.ts';
import { startWorkerDouble, type WorkerDouble, type WorkerDoubleOptions } from './worker-double.ts';

export const adminKey = 'assay_operator1_0123456789abcdef0123456789abcdef';
export const workerToken = 'the token of the test workers';

export type Protocol = 'grpc' | 'connect' | 'grpc-web';

/** The service on a real broker, with as many worker doubles as a test wants. */
export interface RunningService {
  readonly port: number;
  /** What the service counts now, as scrapers read it. */
  metrics(): Promise<string>;
  readonly nats: NatsProcess;
  readonly broker: Broker;
  readonly sessions: SessionStore;
  readonly workers: WorkerStore;
  addWorker(options?: Partial<WorkerDoubleOptions>): Promise<WorkerDouble>;
  /** A key of its own for this project and scope. */
  makeKey(scope: Scope, project?: string): Promise<{ keyId: string; secret: string }>;
  transport(key: string | undefined, protocol?: Protocol, httpVersion?: '1.1' | '2'): Transport;
  stopService(): Promise<void>;
  stop(): Promise<void>;
}

export interface RunOptions {
  readonly env?: Record<string, string>;
  readonly clock?: Clock;
  readonly nats?: NatsProcess;
  /** Nobody reads it unless it is given. */
  readonly log?: Logger;
}

export async function runService(options: RunOptions = {}): Promise<RunningService> {
  const nats = options.nats ?? (await startNats());
  const service = await startSessions(
    configFor(nats, options.env ?? {}),
    options.log ?? createLog('test', 'silent'),
    options.clock,
  );
  const broker = await connectBroker({ ...credentials(nats), name: 'test', replicas: 1 });
  const sessions = createNatsSessionStore({ broker, onEventLost() {} });
  const workers = createNatsWorkerStore(broker);
  const doubles: WorkerDouble[] = [];
  const transport = createTransports(service);
  let stopped = false;
  const stopService = async (): Promise<void> => {
    if (!stopped) await service.close();
    stopped = true;
  };
  return {
    port: service.port,
    metrics: async () => (await getPage(`http://127.0.0.1:${service.metricsPort}/metrics`)).text,
    nats,
    broker,
    sessions,
    workers,
    transport,
    async addWorker(given = {}) {
      const workerId = `worker-${doubles.length + 1}`;
      const double = await startWorkerDouble({ workerId, token: workerToken, sessions, workers, ...given });
      doubles.push(double);
      const { workers: known } = clientsOf(transport(adminKey));
      const seen = async () =>
        (await known.listWorkers({ pageSize: 1_000 })).workers.some((found) => found.workerId === double.workerId);
      // A key over its rate is refused; that is none of this.
      await vi.waitUntil(() => seen().catch(() => false), { timeout: 120_000, interval: 20 });
      return double;
    },
    async makeKey(scope, project = 'default') {
      const keys = createClient(KeyService, transport(adminKey));
      const { key, secret } = await keys.createKey({ scopes: [scope], project });
      return { keyId: key?.keyId ?? '', secret };
    },
    stopService,
    async stop() {
      await stopService();
      for (const double of doubles) await double.stop();
      await broker.close();
      if (options.nats === undefined) await nats.stop();
    },
  };
}

export function clientsOf(transport: Transport) {
  return {
    sessions: createClient(SessionService, transport),
    executions: createClient(ExecutionService, transport),
    keys: createClient(KeyService, transport),
    samples: createClient(SampleService, transport),
    verifications: createClient(VerificationService, transport),
    server: createClient(ServerService, transport),
    workers: createClient(WorkerService, transport),
  };
}

function credentials({ url, user, password }: NatsProcess) {
  return { url, user, password };
}

function configFor(nats: NatsProcess, env: Record<string, string>): SessionsConfig {
  const directory = mkdtempSync(join(runDirectory(), 'sessions-'));
  const file = (name: string, text: string): string => {
    writeFileSync(join(directory, name), text, { mode: 0o600 });
    return join(directory, name);
  };
  try {
    return readSessionsConfig({
      ASSAY_LISTEN: '127.0.0.1:0',
      ASSAY_METRICS_LISTEN: '127.0.0.1:0',
      ASSAY_NATS_URL: nats.url,
      ASSAY_NATS_AUTH_FILE: file('auth.json', JSON.stringify({ user: nats.user, password: nats.password })),
      ASSAY_WORKER_TOKEN_FILE: file('token', workerToken),
      ASSAY_BOOTSTRAP_KEY_FILE: file('key', `${adminKey}\n`),
      ...env,
    });
  } finally {
    rmSync(directory, { recursive: true });
  }
}

function createTransports(service: SessionsService): RunningService['transport'] {
  return (key, protocol = 'grpc', httpVersion = '2') => {
    const authorize: Interceptor = (next) => (request) => {
      if (key !== undefined) request.header.set('authorization', `Bearer ${key}`);
      return next(request);
    };
    const options = { baseUrl: `http://127.0.0.1:${service.port}`, interceptors: [authorize] };
    // A client with less memory than it sends resets its own stream before it reads why it was refused.
    const nodeOptions = { maxSessionMemory: 64 };
    const http = httpVersion === '2' ? ({ httpVersion, nodeOptions } as const) : ({ httpVersion } as const);
    if (protocol === 'connect') return createConnectTransport({ ...options, ...http });
    if (protocol === 'grpc-web') return createGrpcWebTransport({ ...options, ...http });
    return createGrpcTransport({ ...options, nodeOptions });
  };
}
