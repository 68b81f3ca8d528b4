import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import {
  hostAndPort,
  hostPatterns,
  logLevel,
  readConfig,
  readSecretFile,
  resourceLimits,
  wholeNumber,
} from '../shared/config.ts';
import type { HostPattern } from '../shared/host-pattern.ts';
import { readBrokerAuth } from '../shared/store/broker.ts';

const shippedDatasets = fileURLToPath(new URL('../../datasets', import.meta.url));
const hour = 3_600;
const mebibyte = 1_048_576;

/** A limit with its default, from the variable of its name. */
const limit = (min: number, max: number, otherwise: number) => wholeNumber(min, max).default(otherwise);

/** The service's settings, by the environment variable that sets each. */
export const sessionsSettings = z.object({
  ASSAY_LISTEN: hostAndPort().default({ host: '127.0.0.1', port: 7070 }),
  ASSAY_METRICS_LISTEN: hostAndPort().optional(),
  ASSAY_NATS_URL: z.string('expected the broker, such as nats://127.0.0.1:4222').regex(/\S/, 'expected a URL'),
  ASSAY_NATS_AUTH_FILE: z.string('expected a file that holds {"user": "…", "password": "…"}'),
  ASSAY_NATS_REPLICAS: limit(1, 5, 1),
  ASSAY_WORKER_TOKEN_FILE: z.string("expected a file that holds the workers' token"),
  ASSAY_BOOTSTRAP_KEY_FILE: z.string().optional(),
  ASSAY_DATASETS: z.string().regex(/\S/, 'expected a folder').default(shippedDatasets),
  ASSAY_JOB_SWEEP_SECONDS: limit(1, 86_400, 30),
  ASSAY_SAMPLE_KEEP_SECONDS: limit(3_600, 31_536_000, 2_592_000),
  ASSAY_SAMPLE_STORE_BYTES: limit(mebibyte, 2 ** 50, 2_048 * mebibyte),
  ASSAY_ARCHIVE_SWEEP_SECONDS: limit(1, 3_600, 5),
  ASSAY_SESSION_STORE_BYTES: limit(mebibyte, 2 ** 50, 1_024 * mebibyte),
  ASSAY_ENDED_SESSION_STORE_BYTES: limit(mebibyte, 2 ** 50, 512 * mebibyte),
  ASSAY_VERIFICATION_STORE_BYTES: limit(mebibyte, 2 ** 50, 1_024 * mebibyte),
  ASSAY_LOG_LEVEL: logLevel(),
  ASSAY_LIMIT_SESSIONS_PER_PROJECT: limit(1, 1_000_000, 1_000),
  ASSAY_LIMIT_KEYS_PER_PROJECT: limit(1, 1_000_000, 1_000),
  ASSAY_LIMIT_VERIFICATIONS_PER_PROJECT: limit(1, 1_000_000, 1_000),
  ASSAY_LIMIT_SEAL_SECONDS: limit(1, 3_600, 120),
  ASSAY_LIMIT_COMMAND_BYTES: limit(1, mebibyte, mebibyte),
  ASSAY_LIMIT_INPUT_BYTES: limit(1, mebibyte, mebibyte),
  ASSAY_LIMIT_REQUEST_BYTES: limit(65_536, 64 * mebibyte, 4 * mebibyte),
  ASSAY_LIMIT_REQUEST_SECONDS: limit(1, 3_600, 30),
  ASSAY_LIMIT_CALL_SECONDS: limit(1, 86_400, 120),
  ASSAY_LIMIT_UNFINISHED_BYTES_PER_KEY: limit(65_536, 2 ** 40, 256 * mebibyte),
  ASSAY_LIMIT_UNFINISHED_BYTES_PER_PROJECT: limit(65_536, 2 ** 40, 512 * mebibyte),
  ASSAY_LIMIT_UNFINISHED_BYTES_PER_ADDRESS: limit(65_536, 2 ** 40, 1_024 * mebibyte),
  ASSAY_LIMIT_REQUESTS_PER_SECOND: limit(1, 10_000_000, 5_000),
  ASSAY_LIMIT_REQUESTS_PER_SECOND_PER_PROJECT: limit(1, 10_000_000, 10_000),
  ASSAY_LIMIT_PAGES_PER_SECOND: limit(1, 10_000_000, 1_000),
  ASSAY_LIMIT_PAGES_PER_SECOND_PER_ADDRESS: limit(1, 10_000_000, 100),
  ASSAY_LIMIT_DENIALS_PER_SECOND: limit(1, 10_000_000, 200),
  ASSAY_LIMIT_STREAMS_PER_KEY: limit(1, 1_000_000, 1_000),
  ASSAY_LIMIT_STREAMS_PER_PROJECT: limit(1, 1_000_000, 2_000),
  ASSAY_LIMIT_CALLS_PER_PROJECT: limit(1, 1_000_000, 2_000),
  ASSAY_LIMIT_KEYLESS_STREAMS_PER_ADDRESS: limit(1, 1_000_000, 100),
  ASSAY_LIMIT_STREAMS_PER_CONNECTION: limit(1, 100_000, 1_000),
  ASSAY_LIMIT_CONNECTIONS: limit(1, 1_000_000, 4_096),
  ASSAY_LIMIT_CONNECTIONS_PER_ADDRESS: limit(1, 1_000_000, 2_048),
  ASSAY_LIMIT_CONNECTIONS_PER_PROJECT: limit(1, 1_000_000, 1_024),
  ASSAY_LIMIT_UNPROVEN_SECONDS: limit(1, 86_400, 30),
  ASSAY_LIMIT_IDLE_SECONDS: limit(1, 86_400, 600),
  ASSAY_LIMIT_TTL_SECONDS: limit(1, 24 * hour, 24 * hour),
  ASSAY_LIMIT_DEFAULT_TTL_SECONDS: limit(1, 24 * hour, hour),
  ...resourceLimits,
  ASSAY_LIMIT_SAMPLE_BYTES: limit(65_536, 2 ** 40, 256 * mebibyte),
  ASSAY_LIMIT_SAMPLE_FILES: limit(2, 10_000_000, 20_000),
  ASSAY_LIMIT_CREATE_SECONDS: limit(1, 600, 60),
  ASSAY_LIMIT_BUILD_SECONDS: limit(1, 86_400, 1_800),
  ASSAY_LIMIT_EGRESS_HOSTS: hostPatterns().prefault('*:*'),
});

/** What no request may exceed. Each has a variable of the same meaning. */
export interface Limits {
  readonly sessionsPerProject: number;
  /** On record, revoked ones too. */
  readonly keysPerProject: number;
  /** Under way at one time. */
  readonly verificationsPerProject: number;
  /** For sealing a submission. */
  readonly sealMs: number;
  readonly commandBytes: number;
  readonly inputBytes: number;
  readonly requestBytes: number;
  /** For one request to arrive whole. */
  readonly requestMs: number;
  /** For a call with one answer, besides what making a sandbox, building or sealing may take. */
  readonly callMs: number;
  /** Held for requests that have not arrived whole, or that wait for their one answer. */
  readonly unfinishedBytesPerKey: number;
  readonly unfinishedBytesPerProject: number;
  readonly unfinishedBytesPerAddress: number;
  /** Of one key, and of one address without a key. */
  readonly requestsPerSecond: number;
  /** Of all keys of a project. */
  readonly requestsPerSecondPerProject: number;
  /** Of what is beside the RPCs and needs no key, such as `/healthz`. */
  readonly pagesPerSecond: number;
  readonly pagesPerSecondPerAddress: number;
  /** Calls of one address without a valid key. Behind a proxy all callers share it, hence not a small number. */
  readonly denialsPerSecond: number;
  readonly streamsPerKey: number;
  /** Of all keys of a project. */
  readonly streamsPerProject: number;
  /** Under way at one time, of calls with one answer. */
  readonly callsPerProject: number;
  /** Open at one time, of calls that need no key. */
  readonly keylessStreamsPerAddress: number;
  readonly streamsPerConnection: number;
  readonly connections: number;
  readonly connectionsPerAddress: number;
  /** Of connections that have brought a valid key. */
  readonly connectionsPerProject: number;
  /** For a connection to bring a valid key. */
  readonly unprovenMs: number;
  /** For a connection without a call. */
  readonly idleMs: number;
  readonly ttlMs: number;
  readonly defaultTtlMs: number;
  readonly cpus: number;
  readonly memoryBytes: number;
  readonly diskBytes: number;
  readonly pids: number;
  readonly outputKeptBytes: number;
  readonly createMs: number;
  /** In addition, where the image of a sample may have to be built. */
  readonly buildMs: number;
  /** Of one sample's folder. */
  readonly sampleBytes: number;
  readonly sampleFiles: number;
  /** A session's allow-list stays within these. */
  readonly egressHosts: readonly HostPattern[];
}

export interface SessionsConfig {
  readonly listen: { readonly host: string; readonly port: number };
  readonly metricsListen: { readonly host: string; readonly port: number } | undefined;
  readonly nats: { readonly url: string; readonly user: string; readonly password: string; readonly replicas: number };
  readonly workerToken: string;
  readonly bootstrapKey: string | undefined;
  /** The folder of datasets. */
  readonly datasets: string;
  /** How often verifications without a job are looked for. */
  readonly jobSweepMs: number;
  /** How often ended sessions are moved to their archive. */
  readonly archiveSweepMs: number;
  /** Of the records of live sessions. */
  readonly sessionBytes: number;
  /** Of the records of ended sessions. */
  readonly endedSessionBytes: number;
  /** Of the records of all verifications. */
  readonly verificationBytes: number;
  /** How the contents of samples are kept for workers. */
  readonly sampleKeeping: { readonly keepMs: number; readonly maxBytes: number };
  readonly logLevel: string;
  readonly limits: Limits;
}

export function readSessionsConfig(env: Readonly<Record<string, string | undefined>>): SessionsConfig {
  const given = readConfig(sessionsSettings, env, { ASSAY_LIMIT_DEFAULT_TTL_SECONDS: 'ASSAY_LIMIT_TTL_SECONDS' });
  const keyFile = given.ASSAY_BOOTSTRAP_KEY_FILE;
  return {
    listen: given.ASSAY_LISTEN,
    metricsListen: given.ASSAY_METRICS_LISTEN,
    nats: {
      url: given.ASSAY_NATS_URL,
      replicas: given.ASSAY_NATS_REPLICAS,
      ...readBrokerAuth(given.ASSAY_NATS_AUTH_FILE),
    },
    workerToken: readSecretFile(given.ASSAY_WORKER_TOKEN_FILE, 'ASSAY_WORKER_TOKEN_FILE'),
    bootstrapKey: keyFile ? readSecretFile(keyFile, 'ASSAY_BOOTSTRAP_KEY_FILE') : undefined,
    datasets: resolve(given.ASSAY_DATASETS),
    jobSweepMs: given.ASSAY_JOB_SWEEP_SECONDS * 1_000,
    archiveSweepMs: given.ASSAY_ARCHIVE_SWEEP_SECONDS * 1_000,
    sessionBytes: given.ASSAY_SESSION_STORE_BYTES,
    endedSessionBytes: given.ASSAY_ENDED_SESSION_STORE_BYTES,
    verificationBytes: given.ASSAY_VERIFICATION_STORE_BYTES,
    sampleKeeping: {
      keepMs: given.ASSAY_SAMPLE_KEEP_SECONDS * 1_000,
      maxBytes: given.ASSAY_SAMPLE_STORE_BYTES,
    },
    logLevel: given.ASSAY_LOG_LEVEL,
    limits: {
      sessionsPerProject: given.ASSAY_LIMIT_SESSIONS_PER_PROJECT,
      keysPerProject: given.ASSAY_LIMIT_KEYS_PER_PROJECT,
      verificationsPerProject: given.ASSAY_LIMIT_VERIFICATIONS_PER_PROJECT,
      sealMs: given.ASSAY_LIMIT_SEAL_SECONDS * 1_000,
      commandBytes: given.ASSAY_LIMIT_COMMAND_BYTES,
      inputBytes: given.ASSAY_LIMIT_INPUT_BYTES,
      requestBytes: given.ASSAY_LIMIT_REQUEST_BYTES,
      requestMs: given.ASSAY_LIMIT_REQUEST_SECONDS * 1_000,
      callMs: given.ASSAY_LIMIT_CALL_SECONDS * 1_000,
      unfinishedBytesPerKey: given.ASSAY_LIMIT_UNFINISHED_BYTES_PER_KEY,
      unfinishedBytesPerProject: given.ASSAY_LIMIT_UNFINISHED_BYTES_PER_PROJECT,
      unfinishedBytesPerAddress: given.ASSAY_LIMIT_UNFINISHED_BYTES_PER_ADDRESS,
      requestsPerSecond: given.ASSAY_LIMIT_REQUESTS_PER_SECOND,
      requestsPerSecondPerProject: given.ASSAY_LIMIT_REQUESTS_PER_SECOND_PER_PROJECT,
      pagesPerSecond: given.ASSAY_LIMIT_PAGES_PER_SECOND,
      pagesPerSecondPerAddress: given.ASSAY_LIMIT_PAGES_PER_SECOND_PER_ADDRESS,
      denialsPerSecond: given.ASSAY_LIMIT_DENIALS_PER_SECOND,
      streamsPerKey: given.ASSAY_LIMIT_STREAMS_PER_KEY,
      streamsPerProject: given.ASSAY_LIMIT_STREAMS_PER_PROJECT,
      callsPerProject: given.ASSAY_LIMIT_CALLS_PER_PROJECT,
      keylessStreamsPerAddress: given.ASSAY_LIMIT_KEYLESS_STREAMS_PER_ADDRESS,
      streamsPerConnection: given.ASSAY_LIMIT_STREAMS_PER_CONNECTION,
      connections: given.ASSAY_LIMIT_CONNECTIONS,
      connectionsPerAddress: given.ASSAY_LIMIT_CONNECTIONS_PER_ADDRESS,
      connectionsPerProject: given.ASSAY_LIMIT_CONNECTIONS_PER_PROJECT,
      unprovenMs: given.ASSAY_LIMIT_UNPROVEN_SECONDS * 1_000,
      idleMs: given.ASSAY_LIMIT_IDLE_SECONDS * 1_000,
      ttlMs: given.ASSAY_LIMIT_TTL_SECONDS * 1_000,
      defaultTtlMs: given.ASSAY_LIMIT_DEFAULT_TTL_SECONDS * 1_000,
      cpus: given.ASSAY_LIMIT_CPUS,
      memoryBytes: given.ASSAY_LIMIT_MEMORY_BYTES,
      diskBytes: given.ASSAY_LIMIT_DISK_BYTES,
      pids: given.ASSAY_LIMIT_PIDS,
      outputKeptBytes: given.ASSAY_LIMIT_OUTPUT_KEPT_BYTES,
      createMs: given.ASSAY_LIMIT_CREATE_SECONDS * 1_000,
      buildMs: given.ASSAY_LIMIT_BUILD_SECONDS * 1_000,
      sampleBytes: given.ASSAY_LIMIT_SAMPLE_BYTES,
      sampleFiles: given.ASSAY_LIMIT_SAMPLE_FILES,
      egressHosts: given.ASSAY_LIMIT_EGRESS_HOSTS,
    },
  };
}
