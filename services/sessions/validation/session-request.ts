import type {
  CreateSessionRequest,
  ForkSessionRequest,
  ListSessionsRequest,
  UpdateSessionRequest,
} from '../../../gen/assay/v1/session_pb.js';
import { SessionState } from '../../../gen/assay/v1/session_pb.js';
import type { ResourceLimits } from '../../../gen/assay/v1/types_pb.js';
import type { Limits } from '../config.ts';
import { checkEnv, checkLabels } from './environment.ts';
import { checkDuration, checkRange, invalid, show } from './field.ts';
import { checkRequestId, checkSessionId } from './identifier.ts';
import { checkNetwork } from './network.ts';
import { checkSampleName } from './sample-request.ts';

const mebibyte = 1_048_576;
/** A reference as docker takes it: name, tag, digest. */
const imageShape = /^[a-z0-9][A-Za-z0-9._/:@-]{0,511}$/;
const leastMs = 1_000;

export function checkCreateSessionRequest(request: CreateSessionRequest, limits: Limits): void {
  checkRequestId(request.requestId);
  checkImage(request.image);
  checkLabels('labels', request.labels);
  if (request.limits !== undefined) checkLimits(request.limits, limits);
  checkEnv('env', request.env);
  if (request.ttl !== undefined) checkDuration('ttl', request.ttl, leastMs, limits.ttlMs);
  if (request.idleTimeout !== undefined) checkDuration('idle_timeout', request.idleTimeout, leastMs, limits.ttlMs);
  if (request.network !== undefined) checkNetwork('network', request.network, limits.egressHosts);
  checkSample(request);
}

/** A sample brings its own image, and says what can be reached. */
function checkSample(request: CreateSessionRequest): void {
  const { sample, image, network } = request;
  if (sample === undefined) return;
  checkSampleName(sample);
  if (image !== '') throw invalid('image', `found ${show(image)} with a sample`, 'none: a sample has its own');
  if (network !== undefined) throw invalid('network', 'found one with a sample', "none: it is the sample's");
}

export function checkUpdateSessionRequest(request: UpdateSessionRequest, limits: Limits): void {
  checkSessionId(request.sessionId);
  const fields = updatedFields(request);
  checkTimes(request, limits);
  checkLabels('labels', request.labels);
  if (fields.has('ttl') && request.ttl === undefined) throw invalid('ttl', 'found none, and the mask names it', 'one');
}

const updatable = ['ttl', 'idle_timeout', 'labels'] as const;

/** What an update is to change: what its mask names, or without one what is given. */
export function updatedFields(request: UpdateSessionRequest): ReadonlySet<(typeof updatable)[number]> {
  const paths = request.updateMask?.paths ?? [];
  for (const path of paths) {
    if (updatable.every((field) => field !== path)) {
      throw invalid('update_mask', `found ${show(path)}`, `some of ${updatable.join(', ')}`);
    }
  }
  if (paths.length > 0) return new Set(updatable.filter((field) => paths.includes(field)));
  const given = {
    ttl: request.ttl !== undefined,
    idle_timeout: request.idleTimeout !== undefined,
    labels: Object.keys(request.labels).length > 0,
  };
  return new Set(updatable.filter((field) => given[field]));
}

export function checkForkSessionRequest(request: ForkSessionRequest, limits: Limits): void {
  checkSessionId(request.sessionId);
  checkRequestId(request.requestId);
  checkTimes(request, limits);
  if (request.labels !== undefined) checkLabels('labels', request.labels.labels);
  if (request.limits !== undefined) checkLimits(request.limits, limits);
  checkEnv('env', request.env);
  if (request.network !== undefined) checkNetwork('network', request.network, limits.egressHosts);
}

/** What is given anew for a session that exists. */
function checkTimes(request: UpdateSessionRequest | ForkSessionRequest, limits: Limits): void {
  if (request.ttl !== undefined) checkDuration('ttl', request.ttl, leastMs, limits.ttlMs);
  const idle = request.idleTimeout;
  const none = idle !== undefined && idle.seconds === 0n && idle.nanos === 0;
  if (idle !== undefined && !none) checkDuration('idle_timeout', idle, leastMs, limits.ttlMs);
}

export function checkListSessionsRequest(request: ListSessionsRequest): void {
  checkPageSize(request.pageSize);
  checkLabels('labels', request.labels);
  for (const state of request.states) {
    if (state === SessionState.UNSPECIFIED || SessionState[state] === undefined) {
      throw invalid('states', `found ${state}`, 'states of a session');
    }
  }
}

/** 0 is the default, and more than the most is the most. */
export function checkPageSize(pageSize: number): number {
  if (pageSize < 0) throw invalid('page_size', `found ${pageSize}`, '0 or more');
  return pageSize === 0 ? 100 : Math.min(pageSize, 1_000);
}

function checkImage(image: string): void {
  if (image === '' || imageShape.test(image)) return;
  throw invalid('image', `found ${show(image)}`, 'an image such as debian:12, or nothing');
}

export function checkLimits(given: ResourceLimits, limits: Limits): void {
  const { cpus, memoryBytes, diskBytes, pids } = given;
  if (cpus !== undefined) checkRange('limits.cpus', cpus, 0.05, limits.cpus, 'cores');
  const least = 16 * mebibyte;
  if (memoryBytes !== undefined) {
    checkRange('limits.memory_bytes', memoryBytes, least, limits.memoryBytes, 'bytes');
  }
  if (diskBytes !== undefined) checkRange('limits.disk_bytes', diskBytes, least, limits.diskBytes, 'bytes');
  if (pids !== undefined) checkRange('limits.pids', pids, 8, limits.pids, 'processes');
}
