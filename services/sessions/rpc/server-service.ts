import type { MessageInitShape } from '@bufbuild/protobuf';
import { durationFromMs } from '@bufbuild/protobuf/wkt';
import type { ServiceImpl } from '@connectrpc/connect';
import type { LimitsSchema, ServerService } from '../../../gen/assay/v1/server_pb.js';
import type { Limits } from '../config.ts';
import type { WorkerDirectory } from '../worker/worker-directory.ts';

export interface ServerServiceDeps {
  readonly version: string;
  readonly limits: Limits;
  readonly workers: WorkerDirectory;
}

export function createServerService(deps: ServerServiceDeps): ServiceImpl<typeof ServerService> {
  const { version, limits, workers } = deps;
  return {
    getServerInfo() {
      const live = workers
        .all()
        .filter(({ reachable }) => reachable)
        .map(({ record }) => new Set(record.capabilities));
      const common = [...(live[0] ?? [])].filter((word) => live.every((capabilities) => capabilities.has(word)));
      return {
        version,
        capabilities: common.sort(),
        limits: toldLimits(limits),
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
