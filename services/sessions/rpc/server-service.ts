import { durationFromMs } from '@bufbuild/protobuf/wkt';
import type { ServiceImpl } from '@connectrpc/connect';
import type { ServerService } from '../../../gen/assay/v1/server_pb.js';
import type { Limits } from '../config.ts';
import type { WorkerDirectory } from '../worker/worker-directory.ts';

export function createServerService(
  version: string,
  limits: Limits,
  workers: WorkerDirectory,
): ServiceImpl<typeof ServerService> {
  return {
    getServerInfo() {
      const known = workers.all();
      const live = known.filter(({ reachable }) => reachable).map(({ record }) => new Set(record.capabilities));
      const common = [...(live[0] ?? [])].filter((word) => live.every((capabilities) => capabilities.has(word)));
      return {
        version,
        capabilities: common.sort(),
        limits: {
          sessionsPerProject: limits.sessionsPerProject,
          commandBytes: limits.commandBytes,
          inputBytes: limits.inputBytes,
          requestBytes: limits.requestBytes,
          requestsPerSecond: limits.requestsPerSecond,
          streamsPerKey: limits.streamsPerKey,
          verificationsPerProject: limits.verificationsPerProject,
          ttl: durationFromMs(limits.ttlMs),
          defaultTtl: durationFromMs(limits.defaultTtlMs),
        },
        workers: known.map(({ record, reachable }) => ({
          workerId: record.workerId,
          sessions: record.sessions,
          capacity: record.capacity,
          reachable,
          capabilities: record.capabilities,
          warm: record.warm,
          warmCapacity: record.warmCapacity,
        })),
      };
    },
  };
}
