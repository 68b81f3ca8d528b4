import { createClient, type Transport } from '@connectrpc/connect';
import { type Limits, ServerService } from '../../gen/assay/v1/server_pb.js';
import type { Caller } from './caller.ts';
import { toMilliseconds } from './time.ts';

export interface ServerInfo {
  readonly version: string;
  /** What every live worker can do, as stable words. */
  readonly capabilities: readonly string[];
  readonly limits: ServerLimits | undefined;
  readonly workers: readonly WorkerInfo[];
}

export interface ServerLimits {
  readonly sessionsPerProject: number;
  readonly commandBytes: number;
  readonly inputBytes: number;
  readonly requestBytes: number;
  readonly requestsPerSecond: number;
  readonly streamsPerKey: number;
  readonly verificationsPerProject: number;
  readonly ttlMs: number;
  readonly defaultTtlMs: number;
}

export interface WorkerInfo {
  readonly id: string;
  readonly sessions: number;
  readonly capacity: number;
  readonly reachable: boolean;
  readonly capabilities: readonly string[];
  /** Sandboxes that wait in its warm pool, and how many when it is full. */
  readonly warm: number;
  readonly warmCapacity: number;
}

export interface Server {
  info(): Promise<ServerInfo>;
  /** Gives up a worker that is gone for good: its sessions are LOST. Needs an admin key of the operator's project. */
  forgetWorker(id: string): Promise<{ readonly sessionsLost: number }>;
}

export function createServer(transport: Transport, caller: Caller): Server {
  const rpc = createClient(ServerService, transport);
  return {
    async info() {
      const answer = await caller.repeatable(() => rpc.getServerInfo({}));
      return {
        version: answer.version,
        capabilities: answer.capabilities,
        limits: answer.limits && toLimits(answer.limits),
        workers: answer.workers.map(({ workerId, sessions, capacity, reachable, capabilities, warm, warmCapacity }) => {
          return { id: workerId, sessions, capacity, reachable, capabilities, warm, warmCapacity };
        }),
      };
    },
    async forgetWorker(workerId) {
      const { sessionsLost } = await caller.repeatable(() => rpc.forgetWorker({ workerId }));
      return { sessionsLost };
    },
  };
}

function toLimits(wire: Limits): ServerLimits {
  const { sessionsPerProject, commandBytes, inputBytes, requestBytes, requestsPerSecond, streamsPerKey } = wire;
  const { verificationsPerProject } = wire;
  return {
    sessionsPerProject,
    commandBytes,
    inputBytes,
    requestBytes,
    requestsPerSecond,
    streamsPerKey,
    verificationsPerProject,
    ttlMs: toMilliseconds(wire.ttl),
    defaultTtlMs: toMilliseconds(wire.defaultTtl),
  };
}
