import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import {
  ConfigError,
  hostAndPort,
  hostPatterns,
  logLevel,
  readConfig,
  readSecretFile,
  wholeNumber,
} from '../shared/config.ts';
import type { HostPattern } from '../shared/host-pattern.ts';
import { readBrokerAuth } from '../shared/store/broker.ts';

const shippedDatasets = fileURLToPath(new URL('../../datasets', import.meta.url));
const hour = 3_600;
const mebibyte = 1_048_576;

/** A limit with its default, from the variable of its name. */
const limit = (min: number, max: number, otherwise: number) => wholeNumber(min, max).default(otherwise);

const schema = z.object({
  ASSAY_LISTEN: hostAndPort().default({ host: '127.0.0.1', port: 7070 }),
  ASSAY_NATS_URL: z.string('expected the broker, such as nats://127.0.0.1:4222').regex(/\S/, 'expected a URL'),
  ASSAY_NATS_AUTH_FILE: z.string('expected a file that holds {"user": "…", "password": "…"}'),
  ASSAY_NATS_REPLICAS: limit(1, 5, 1),
  ASSAY_WORKER_TOKEN_FILE: z.string("expected a file that holds the workers' token"),
  ASSAY_BOOTSTRAP_KEY_FILE: z.string().optional(),
  ASSAY_DATASETS: z.string().regex(/\S/, 'expected a folder').default(shippedDatasets),
  ASSAY_JOB_SWEEP_SECONDS: limit(1, 86_400, 30),
  ASSAY_SAMPLE_KEEP_SECONDS: limit(3_600, 31_536_000, 2_592_000),
  ASSAY_SAMPLE_STORE_BYTES: limit(mebibyte, 2 ** 50, 2_048 * mebibyte),
  ASSAY_VERIFICATION_STORE_BYTES: limit(mebibyte, 2 ** 50, 1_024 * mebibyte),
  ASSAY_LOG_LEVEL: logLevel(),
  ASSAY_LIMIT_SESSIONS_PER_PROJECT: limit(1, 1_000_000, 1_000),
  ASSAY_LIMIT_VERIFICATIONS_PER_PROJECT: limit(1, 1_000_000, 1_000),
  ASSAY_LIMIT_SEAL_SECONDS: limit(1, 3_600, 120),
  ASSAY_LIMIT_COMMAND_BYTES: limit(1, mebibyte, mebibyte),
  ASSAY_LIMIT_INPUT_BYTES: limit(1, mebibyte, mebibyte),
  ASSAY_LIMIT_REQUEST_BYTES: limit(65_536, 64 * mebibyte, 4 * mebibyte),
  ASSAY_LIMIT_REQUESTS_PER_SECOND: limit(1, 10_000_000, 5_000),
  ASSAY_LIMIT_DENIALS_PER_SECOND: limit(1, 10_000_000, 200),
  ASSAY_LIMIT_STREAMS_PER_KEY: limit(1, 1_000_000, 1_000),
  ASSAY_LIMIT_STREAMS_PER_CONNECTION: limit(1, 100_000, 1_000),
  ASSAY_LIMIT_CONNECTIONS: limit(1, 1_000_000, 4_096),
  ASSAY_LIMIT_TTL_SECONDS: limit(1, 24 * hour, 24 * hour),
  ASSAY_LIMIT_DEFAULT_TTL_SECONDS: limit(1, 24 * hour, hour),
  ASSAY_LIMIT_CPUS: limit(1, 64, 64),
  ASSAY_LIMIT_MEMORY_BYTES: limit(16 * mebibyte, 2 ** 40, 2 ** 40),
  ASSAY_LIMIT_DISK_BYTES: limit(16 * mebibyte, 2 ** 44, 2 ** 40),
  ASSAY_LIMIT_PIDS: limit(8, 4_194_304, 65_536),
  ASSAY_LIMIT_OUTPUT_KEPT_BYTES: limit(4_096, 2 ** 40, 1_024 * mebibyte),
  ASSAY_LIMIT_SAMPLE_BYTES: limit(65_536, 2 ** 40, 256 * mebibyte),
  ASSAY_LIMIT_SAMPLE_FILES: limit(2, 10_000_000, 20_000),
  ASSAY_LIMIT_CREATE_SECONDS: limit(1, 600, 60),
  ASSAY_LIMIT_BUILD_SECONDS: limit(1, 86_400, 1_800),
  ASSAY_LIMIT_EGRESS_HOSTS: hostPatterns().prefault('*:*'),
});

/** What no request may exceed. Each has a variable of the same meaning. */
export interface Limits {
  readonly sessionsPerProject: number;
  /** Under way at one time. */
  readonly verificationsPerProject: number;
  /** For sealing a submission. */
  readonly sealMs: number;
  readonly commandBytes: number;
  readonly inputBytes: number;
  readonly requestBytes: number;
  readonly requestsPerSecond: number;
  /** Calls of one address without a valid key. Behind a proxy all callers share it, hence not a small number. */
  readonly denialsPerSecond: number;
  readonly streamsPerKey: number;
  readonly streamsPerConnection: number;
  readonly connections: number;
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
  readonly nats: { readonly url: string; readonly user: string; readonly password: string; readonly replicas: number };
  readonly workerToken: string;
  readonly bootstrapKey: string | undefined;
  /** The folder of datasets. */
  readonly datasets: string;
  /** How the contents of samples are kept for workers. */
  /** How often verifications without a job are looked for. */
  readonly jobSweepMs: number;
  /** Of the records of all verifications. */
  readonly verificationBytes: number;
  readonly sampleKeeping: { readonly keepMs: number; readonly maxBytes: number };
  readonly logLevel: string;
  readonly limits: Limits;
}

export function readSessionsConfig(env: Readonly<Record<string, string | undefined>>): SessionsConfig {
  const given = readConfig(schema, env);
  if (given.ASSAY_LIMIT_DEFAULT_TTL_SECONDS > given.ASSAY_LIMIT_TTL_SECONDS) {
    throw new ConfigError(
      `bad configuration:\n  ASSAY_LIMIT_DEFAULT_TTL_SECONDS: expected at most ASSAY_LIMIT_TTL_SECONDS, ` +
        `${given.ASSAY_LIMIT_TTL_SECONDS} (found: ${given.ASSAY_LIMIT_DEFAULT_TTL_SECONDS})`,
    );
  }
  const keyFile = given.ASSAY_BOOTSTRAP_KEY_FILE;
  return {
    listen: given.ASSAY_LISTEN,
    nats: {
      url: given.ASSAY_NATS_URL,
      replicas: given.ASSAY_NATS_REPLICAS,
      ...readBrokerAuth(given.ASSAY_NATS_AUTH_FILE),
    },
    workerToken: readSecretFile(given.ASSAY_WORKER_TOKEN_FILE, 'ASSAY_WORKER_TOKEN_FILE'),
    bootstrapKey: keyFile ? readSecretFile(keyFile, 'ASSAY_BOOTSTRAP_KEY_FILE') : undefined,
    datasets: resolve(given.ASSAY_DATASETS),
    jobSweepMs: given.ASSAY_JOB_SWEEP_SECONDS * 1_000,
    verificationBytes: given.ASSAY_VERIFICATION_STORE_BYTES,
    sampleKeeping: {
      keepMs: given.ASSAY_SAMPLE_KEEP_SECONDS * 1_000,
      maxBytes: given.ASSAY_SAMPLE_STORE_BYTES,
    },
    logLevel: given.ASSAY_LOG_LEVEL,
    limits: {
      sessionsPerProject: given.ASSAY_LIMIT_SESSIONS_PER_PROJECT,
      verificationsPerProject: given.ASSAY_LIMIT_VERIFICATIONS_PER_PROJECT,
      sealMs: given.ASSAY_LIMIT_SEAL_SECONDS * 1_000,
      commandBytes: given.ASSAY_LIMIT_COMMAND_BYTES,
      inputBytes: given.ASSAY_LIMIT_INPUT_BYTES,
      requestBytes: given.ASSAY_LIMIT_REQUEST_BYTES,
      requestsPerSecond: given.ASSAY_LIMIT_REQUESTS_PER_SECOND,
      denialsPerSecond: given.ASSAY_LIMIT_DENIALS_PER_SECOND,
      streamsPerKey: given.ASSAY_LIMIT_STREAMS_PER_KEY,
      streamsPerConnection: given.ASSAY_LIMIT_STREAMS_PER_CONNECTION,
      connections: given.ASSAY_LIMIT_CONNECTIONS,
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
