import type { MessageInitShape } from '@bufbuild/protobuf';
import { durationFromMs } from '@bufbuild/protobuf/wkt';
import type { ServiceImpl } from '@connectrpc/connect';
import type { LimitsSchema, ServerService } from '../../../gen/assay/v1/server_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import { requireCaller } from '../auth/caller.ts';
import { operatorProject } from '../auth/project.ts';
import type { Limits } from '../config.ts';
import { checkWorkerId } from '../validation/identifier.ts';
import type { WorkerForgetter } from '../worker/forget-worker.ts';
import type { WorkerDirectory } from '../worker/worker-directory.ts';

export interface ServerServiceDeps {
  readonly version: string;
  readonly limits: Limits;
  readonly workers: WorkerDirectory;
  readonly forget: WorkerForgetter;
}

export function createServerService(deps: ServerServiceDeps): ServiceImpl<typeof ServerService> {
  const { version, limits, workers, forget } = deps;
  return {
    async forgetWorker({ workerId }, context) {
      // A worker has sessions of every project.
      if (requireCaller(context).project !== operatorProject) {
        const message = `only an admin key of the project ${operatorProject} forgets workers; use one`;
        throw new DomainError('SCOPE_MISSING', message, { scope: 'admin' });
      }
      checkWorkerId(workerId);
      return { sessionsLost: await forget(workerId) };
    },
    getServerInfo() {
      const known = workers.all();
      const live = known.filter(({ reachable }) => reachable).map(({ record }) => new Set(record.capabilities));
      const common = [...(live[0] ?? [])].filter((word) => live.every((capabilities) => capabilities.has(word)));
      return {
        version,
        capabilities: common.sort(),
        limits: toldLimits(limits),
        workers: known.map(({ record, reachable, connectFailure }) => ({
          workerId: record.workerId,
          sessions: record.sessions,
          capacity: record.capacity,
          reachable: reachable && connectFailure === undefined,
          capabilities: record.capabilities,
          warm: record.warm,
          warmCapacity: record.warmCapacity,
          pressure: record.pressure,
        })),
      };
    },
  };
}

function toldLimits(limits: Limits): MessageInitShape<typeof LimitsSchema> {
  return {
    sessionsPerProject: limits.sessionsPerProject,
    commandBytes: limits.commandBytes,
    inputBytes: limits.inputBytes,
    requestBytes: limits.requestBytes,
    requestsPerSecond: limits.requestsPerSecond,
    streamsPerKey: limits.streamsPerKey,
    ttl: durationFromMs(limits.ttlMs),
    defaultTtl: durationFromMs(limits.defaultTtlMs),
    verificationsPerProject: limits.verificationsPerProject,
    keysPerProject: limits.keysPerProject,
    requestsPerSecondPerProject: limits.requestsPerSecondPerProject,
    streamsPerProject: limits.streamsPerProject,
    callsPerProject: limits.callsPerProject,
    connectionsPerProject: limits.connectionsPerProject,
    unfinishedBytesPerKey: BigInt(limits.unfinishedBytesPerKey),
    unfinishedBytesPerProject: BigInt(limits.unfinishedBytesPerProject),
    session: {
      cpus: limits.cpus,
      memoryBytes: BigInt(limits.memoryBytes),
      diskBytes: BigInt(limits.diskBytes),
      pids: limits.pids,
    },
    outputKeptBytes: BigInt(limits.outputKeptBytes),
  };
}
