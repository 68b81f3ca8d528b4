import { createClient, type Transport } from '@connectrpc/connect';
import { type Limits, ServerService } from '../../gen/assay/v1/server_pb.js';
import type { Caller } from './caller.ts';
import { fromWireLimits, type ResourceLimits } from './session-info.ts';
import { toMilliseconds } from './time.ts';

export interface ServerInfo {
  readonly version: string;
  /** What every live worker can do, as stable words. */
  readonly capabilities: readonly string[];
  readonly limits: ServerLimits | undefined;
}

export interface ServerLimits {
  readonly sessionsPerProject: number;
  readonly commandBytes: number;
  readonly inputBytes: number;
  readonly requestBytes: number;
  readonly requestsPerSecond: number;
  readonly streamsPerKey: number;
  readonly verificationsPerProject: number;
  readonly keysPerProject: number;
  readonly requestsPerSecondPerProject: number;
  readonly streamsPerProject: number;
  readonly callsPerProject: number;
  readonly connectionsPerProject: number;
  readonly unfinishedBytesPerKey: number;
  readonly unfinishedBytesPerProject: number;
  /** The most that one session may ask for; a worker whose host has less refuses with HOST_FULL. */
  readonly session: ResourceLimits;
  /** Of one execution. */
  readonly outputKeptBytes: number;
  readonly ttlMs: number;
  readonly defaultTtlMs: number;
}

export interface Server {
  info(): Promise<ServerInfo>;
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
      };
    },
  };
}

function toLimits(wire: Limits): ServerLimits {
  const { $typeName: _, $unknown: __, ttl, defaultTtl, session, ...rest } = wire;
  return {
    ...rest,
    unfinishedBytesPerKey: Number(rest.unfinishedBytesPerKey),
    unfinishedBytesPerProject: Number(rest.unfinishedBytesPerProject),
    outputKeptBytes: Number(rest.outputKeptBytes),
    session: session === undefined ? {} : fromWireLimits(session),
    ttlMs: toMilliseconds(ttl),
    defaultTtlMs: toMilliseconds(defaultTtl),
  };
}
