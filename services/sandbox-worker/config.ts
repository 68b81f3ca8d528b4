import { z } from 'zod';
import { NetworkMode } from '../../gen/assay/v1/types_pb.js';
import {
  type DefaultBounds,
  hostAndPort,
  hostPatterns,
  listOf,
  logLevel,
  readConfig,
  resourceLimits,
  wholeNumber,
} from '../shared/config.ts';
import { bucketSpecs } from '../shared/store/bucket-spec.ts';
import { defaultFetchOptions } from './image/fetch-source.ts';
import { type AddressRange, parseAddressRange } from './network/address-range.ts';
import { imagePattern } from './sandbox/allowed-images.ts';
import { warmPool } from './warm-pool-setting.ts';

const mebibyte = 1_048_576;
/** What belongs to a session or a verification is found by its record, so keeping it for longer than that is no use. */
const recordSeconds = bucketSpecs.assay_sessions.maxAgeMs / 1_000;

/** Private addresses, and those that providers share between customers. */
const privateNetworks = '10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,100.64.0.0/10,198.18.0.0/15,fc00::/7';

const networkMode = (word: string): NetworkMode | undefined =>
  ({ none: NetworkMode.NONE, egress: NetworkMode.EGRESS, full: NetworkMode.FULL })[word];

const ipv4Range = (text: string): AddressRange | undefined => {
  const range = parseAddressRange(text);
  return range?.family === 'ipv4' ? range : undefined;
};

const webAddressOf = (text: string): string | undefined => (/^https?:\/\/[^\s]+$/.test(text) ? text : undefined);
const webAddress = () => z.string().regex(/^https?:\/\/[^\s]+$/, 'expected an http or https address');

/** The worker's settings, by the environment variable that sets each. */
export const workerConfig = z.object({
  ASSAY_DATA_DIR: z.string('expected a directory').min(1, 'expected a directory'),
  ASSAY_NATS_URL: z.string('expected nats://host:port').min(1, 'expected nats://host:port'),
  ASSAY_NATS_AUTH_FILE: z.string('expected a file with {"user","password"}'),
  ASSAY_NATS_REPLICAS: wholeNumber(1, 5).prefault('1'),
  ASSAY_WORKER_TOKEN_FILE: z.string('expected a file with the token that the sessions service shows'),
  ASSAY_WORKER_LISTEN: hostAndPort().prefault('127.0.0.1:0'),
  ASSAY_WORKER_ADVERTISE: z
    .string()
    .regex(/^[^\s/]+:[1-9]\d{0,4}$/, 'expected host:port, such as 10.0.0.5:7071')
    .optional(),
  ASSAY_WORKER_METRICS_LISTEN: hostAndPort().optional(),
  ASSAY_DOCKER_SOCKET: z.string('expected a path').prefault('/var/run/docker.sock'),
  ASSAY_BASE_IMAGE: z.string('expected an image reference').min(1, 'expected an image reference'),
  ASSAY_GUEST_PATH: z.string('expected the path of the guest binary').min(1, 'expected the path of the guest binary'),
  ASSAY_ISOLATED_PATH: z.string('expected the path of the program isolated').min(1).optional(),
  ASSAY_GRADING_POOL: wholeNumber(0, 1_000).prefault('2'),
  ASSAY_GRADING_OUTPUT_BYTES: wholeNumber(4_096, 64 * mebibyte).prefault(String(mebibyte)),
  ASSAY_INSTALLATION: z.string('expected an id').regex(/^[a-z0-9-]{1,40}$/, 'expected 1 to 40 of a-z, 0-9 and -'),
  ASSAY_ON_STOP: z.enum(['close', 'keep'], 'expected close or keep').prefault('keep'),
  ASSAY_LOG_LEVEL: logLevel(),
  ASSAY_IMAGES: listOf(imagePattern, 'an image such as debian:12, team/* or *').prefault(''),
  ASSAY_WARM_POOL: warmPool().prefault('base=2'),
  ASSAY_WORKER_CAPACITY: wholeNumber(0, 10_000).prefault('200'),
  ASSAY_PROJECT_SHARE: wholeNumber(1, 100).prefault('75'),
  ASSAY_OVERCOMMIT_MEMORY: wholeNumber(1, 1_000).prefault('16'),
  ASSAY_OVERCOMMIT_DISK: wholeNumber(1, 1_000).prefault('16'),
  ASSAY_OVERCOMMIT_PIDS: wholeNumber(1, 1_000).prefault('1'),
  ASSAY_MEMORY_FLOOR_BYTES: wholeNumber(0, 2 ** 50).prefault(String(256 * mebibyte)),
  ASSAY_DISK_FLOOR_BYTES: wholeNumber(0, 2 ** 50).prefault(String(1024 * mebibyte)),
  ASSAY_DISK_FLOOR_INODES: wholeNumber(0, 2 ** 50).prefault('10000'),
  ASSAY_DISK_RESERVE_BYTES: wholeNumber(0, 2 ** 40).prefault(String(64 * mebibyte)),
  ASSAY_ALLOW_UNLIMITED_DISK: z.enum(['true', 'false'], 'expected true or false').prefault('false'),
  ...resourceLimits,
  ASSAY_DEFAULT_CPUS: z.coerce.number('expected a number of cores').positive().prefault('1'),
  ASSAY_DEFAULT_MEMORY_BYTES: wholeNumber(16 * mebibyte, 2 ** 50).prefault(String(1024 * mebibyte)),
  ASSAY_DEFAULT_DISK_BYTES: wholeNumber(16 * mebibyte, 2 ** 50).prefault(String(2048 * mebibyte)),
  ASSAY_DEFAULT_PIDS: wholeNumber(8, 1_000_000).prefault('512'),
  ASSAY_OUTPUT_KEPT_BYTES: wholeNumber(4 * mebibyte, 2 ** 40).prefault(String(64 * mebibyte)),
  ASSAY_UNREAD_BYTES_PER_SECOND: wholeNumber(mebibyte, 2 ** 50).prefault(String(256 * mebibyte)),
  ASSAY_SPOOL_BYTES: wholeNumber(16 * mebibyte, 2 ** 50).prefault(String(10_240 * mebibyte)),
  ASSAY_VERIFICATION_SLOTS: wholeNumber(1, 1_000).prefault('3'),
  ASSAY_VALIDATION_SLOTS: wholeNumber(1, 64).prefault('2'),
  ASSAY_VALIDATION_SECONDS: wholeNumber(1, 604_800).prefault('7200'),
  ASSAY_VALIDATIONS_PER_PROJECT: wholeNumber(1, 100_000).prefault('32'),
  ASSAY_VERIFICATION_ATTEMPTS: wholeNumber(1, 100).prefault('5'),
  ASSAY_JOB_ACK_SECONDS: wholeNumber(1, 3_600).prefault('30'),
  ASSAY_SEAL_SECONDS: wholeNumber(1, 3_600).prefault('60'),
  ASSAY_SUBMISSION_KEEP_SECONDS: wholeNumber(3_600, recordSeconds).prefault('2592000'),
  ASSAY_SUBMISSION_STORE_BYTES: wholeNumber(mebibyte, 2 ** 50).prefault(String(4_096 * mebibyte)),
  ASSAY_SUBMISSION_CACHE_BYTES: wholeNumber(mebibyte, 2 ** 50).prefault(String(1_024 * mebibyte)),
  ASSAY_RESULT_KEEP_SECONDS: wholeNumber(3_600, recordSeconds).prefault('2592000'),
  ASSAY_RESULT_STORE_BYTES: wholeNumber(mebibyte, 2 ** 50).prefault(String(1_024 * mebibyte)),
  ASSAY_TRANSCRIPT_BYTES: wholeNumber(65_536, 2 ** 32).prefault(String(64 * mebibyte)),
  ASSAY_TRANSCRIPT_KEEP_SECONDS: wholeNumber(1, recordSeconds).prefault('604800'),
  ASSAY_TRANSCRIPT_STORE_BYTES: wholeNumber(mebibyte, 2 ** 50).prefault(String(4_096 * mebibyte)),
  ASSAY_TRANSCRIPT_PATIENCE_SECONDS: wholeNumber(0, 86_400).prefault('600'),
  ASSAY_LIMIT_SAMPLE_BYTES: wholeNumber(65_536, 2 ** 40).prefault(String(256 * mebibyte)),
  ASSAY_LIMIT_SAMPLE_FILES: wholeNumber(2, 10_000_000).prefault('20000'),
  ASSAY_SAMPLE_CACHE_BYTES: wholeNumber(mebibyte, 2 ** 50).prefault(String(2_048 * mebibyte)),
  ASSAY_IMAGE_BUILDS: wholeNumber(1, 64).prefault('3'),
  ASSAY_IMAGE_BUILDS_PER_PROJECT: wholeNumber(1, 100_000).prefault('200'),
  ASSAY_IMAGE_BUILD_SECONDS: wholeNumber(1, 86_400).prefault('1800'),
  ASSAY_PROGRESS_LINES: wholeNumber(10, 100_000).prefault('1000'),
  ASSAY_SOURCE_BYTES: wholeNumber(65_536, 2 ** 40).prefault(String(512 * mebibyte)),
  ASSAY_SOURCE_SECONDS: wholeNumber(1, 86_400).prefault('300'),
  ASSAY_NPM_REGISTRY: webAddress().prefault(defaultFetchOptions.npmRegistry),
  ASSAY_DEBIAN_POOLS: listOf(webAddressOf, 'an http or https address').prefault(defaultFetchOptions.debianPools.join()),
  ASSAY_EXECUTIONS_PER_SESSION: wholeNumber(1, 10_000_000).prefault('100000'),
  ASSAY_ENDED_IN_MEMORY: wholeNumber(1, 10_000_000).prefault('16384'),
  ASSAY_ENDED_IN_MEMORY_PER_SESSION: wholeNumber(1, 10_000_000).prefault('4096'),
  ASSAY_NETWORK_MODES: listOf(networkMode, 'none, egress or full').prefault('none,egress,full'),
  ASSAY_IDMOUNT_PATH: z.string().startsWith('/', 'expected the absolute path of idmount').optional(),
  ASSAY_LAUNCHER_PATH: z.string().startsWith('/', 'expected the absolute path of launcher').optional(),
  ASSAY_NETDOOR_PATH: z.string().startsWith('/', 'expected the absolute path of netdoor').optional(),
  ASSAY_BLOCKED_NETWORKS: listOf(parseAddressRange, 'a range such as 10.0.0.0/8').prefault(privateNetworks),
  ASSAY_EGRESS_ALLOW: hostPatterns().prefault(''),
  ASSAY_EGRESS_HOSTS_FILE: z.string('expected a file in the form of /etc/hosts').optional(),
  ASSAY_EGRESS_CONNECTIONS: wholeNumber(1, 10_000).prefault('64'),
  ASSAY_EGRESS_CONNECTIONS_PER_PROJECT: wholeNumber(1, 100_000).prefault('1024'),
  ASSAY_EGRESS_HEAD_BYTES: wholeNumber(1_024, mebibyte).prefault('16384'),
  ASSAY_EGRESS_WAIT_SECONDS: wholeNumber(1, 300).prefault('10'),
  ASSAY_EGRESS_IDLE_SECONDS: wholeNumber(1, 86_400).prefault('300'),
  ASSAY_FULL_SUBNET: z
    .string()
    .transform(ipv4Range)
    .refine(
      (range) => range !== undefined && range.prefix >= 8 && range.prefix <= 28,
      'expected an IPv4 range of /8 to /28',
    )
    .transform((range) => range as AddressRange)
    .prefault('198.19.0.0/16'),
  ASSAY_FULL_NAME_SERVERS: listOf((text) => ipv4Range(`${text}/32`)?.address, 'an IPv4 address').prefault(''),
  ASSAY_SHELLS_PER_SESSION: wholeNumber(1, 64).prefault('32'),
  ASSAY_QUEUED_PER_SHELL: wholeNumber(1, 10_000).prefault('256'),
  ASSAY_QUEUED_BYTES_PER_SESSION: wholeNumber(mebibyte, 2 ** 32).prefault(String(16 * mebibyte)),
});

export type WorkerConfig = z.infer<typeof workerConfig>;

const defaultBounds: DefaultBounds = {
  ASSAY_DEFAULT_CPUS: 'ASSAY_LIMIT_CPUS',
  ASSAY_DEFAULT_MEMORY_BYTES: 'ASSAY_LIMIT_MEMORY_BYTES',
  ASSAY_DEFAULT_DISK_BYTES: 'ASSAY_LIMIT_DISK_BYTES',
  ASSAY_DEFAULT_PIDS: 'ASSAY_LIMIT_PIDS',
  ASSAY_OUTPUT_KEPT_BYTES: 'ASSAY_LIMIT_OUTPUT_KEPT_BYTES',
};

export function readWorkerConfig(env: Readonly<Record<string, string | undefined>>): WorkerConfig {
  return readConfig(workerConfig, env, defaultBounds);
}
