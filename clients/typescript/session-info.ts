import {
  PauseReason,
  SessionEndReason,
  SessionState,
  TranscriptState,
  type SessionSample as WireSample,
  type Session as WireSession,
} from '../../gen/assay/v1/session_pb.js';
import {
  NetworkMode,
  type ResourceLimits as WireLimits,
  type Network as WireNetwork,
} from '../../gen/assay/v1/types_pb.js';
import { enumValue } from './enum-word.ts';
import { toDate, toMilliseconds } from './time.ts';

/** Where a session is in its life, as the server names it. */
export type SessionStateName = Exclude<keyof typeof SessionState, 'UNSPECIFIED'>;

/** Why a session ended, as the server names it. */
export type SessionEndReasonName = Exclude<keyof typeof SessionEndReason, 'UNSPECIFIED'>;

/** Who froze a session, and why, as the server names it. */
export type PauseReasonName = Exclude<keyof typeof PauseReason, 'UNSPECIFIED'>;

export type TranscriptStateName = Exclude<keyof typeof TranscriptState, 'UNSPECIFIED'>;

/** What a session may use. What is absent takes the server's default. */
export interface ResourceLimits {
  cpus?: number;
  memoryBytes?: number;
  diskBytes?: number;
  pids?: number;
}

/** How much of the outside a session can reach. */
export type NetworkModeName = Exclude<keyof typeof NetworkMode, 'UNSPECIFIED'>;

/** What a session can reach. */
export interface Network {
  mode: NetworkModeName;
  /** With EGRESS: hosts such as example.org, *.example.org or example.org:8443, beside those that every session has. */
  allow?: readonly string[];
}

/** The task of a session that was made from a sample, as the sample was then. */
export interface SessionSampleInfo {
  readonly dataset: string;
  readonly id: string;
  readonly version: string;
  /** The task, as the agent reads it. Empty in lists. */
  readonly instruction: string;
  readonly contentDigest: string;
  readonly imageDigest: string;
  readonly verificationDigest: string;
}

/** A session as the server described it at one moment. */
export interface SessionInfo {
  readonly id: string;
  readonly state: SessionStateName;
  /** Why it closes or has ended. Undefined while it lives. */
  readonly endReason: SessionEndReasonName | undefined;
  /** With CREATE_FAILED: the stable reason of the error that kept it from being made. Else empty. */
  readonly errorReason: string;
  /** Why it ended, why its worker has paused it, or what it waits for: for people. */
  readonly message: string;
  readonly image: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly limits: ResourceLimits;
  readonly env: Readonly<Record<string, string>>;
  readonly createTime: Date | undefined;
  readonly expireTime: Date | undefined;
  readonly endTime: Date | undefined;
  readonly idleTimeoutMs: number | undefined;
  readonly paused: boolean;
  /** Undefined unless it is paused. What its worker has paused goes on by itself. */
  readonly pauseReason: PauseReasonName | undefined;
  readonly network: Network;
  readonly workerId: string;
  /** Whether the sandbox was waiting in the warm pool. */
  readonly warm: boolean;
  /** The session whose filesystem this one began with. Empty: none. */
  readonly forkedFrom: string;
  /** The sample it was made from. Undefined: none. */
  readonly sample: SessionSampleInfo | undefined;
  /** What became of the transcript of a session that has ended. */
  readonly transcript: TranscriptStateName | undefined;
  /** Why the transcript is MISSING, or still PENDING. */
  readonly transcriptMessage: string;
}

export function toSessionInfo(wire: WireSession): SessionInfo {
  return {
    id: wire.sessionId,
    state: SessionState[wire.state] as SessionStateName,
    endReason: toEndReason(wire.endReason),
    errorReason: wire.errorReason,
    message: wire.message,
    image: wire.image,
    labels: wire.labels,
    limits: wire.limits === undefined ? {} : fromWireLimits(wire.limits),
    env: wire.env,
    createTime: toDate(wire.createTime),
    expireTime: toDate(wire.expireTime),
    endTime: toDate(wire.endTime),
    idleTimeoutMs: wire.idleTimeout && toMilliseconds(wire.idleTimeout),
    paused: wire.paused,
    pauseReason: toPauseReason(wire.pauseReason),
    network: fromWireNetwork(wire.network),
    workerId: wire.workerId,
    warm: wire.warm,
    forkedFrom: wire.forkedFrom,
    sample: wire.sample && toSampleInfo(wire.sample),
    transcript:
      wire.transcriptState === TranscriptState.UNSPECIFIED
        ? undefined
        : (TranscriptState[wire.transcriptState] as TranscriptStateName),
    transcriptMessage: wire.transcriptMessage,
  };
}

export function toEndReason(wire: SessionEndReason): SessionEndReasonName | undefined {
  return wire === SessionEndReason.UNSPECIFIED ? undefined : (SessionEndReason[wire] as SessionEndReasonName);
}

export function toPauseReason(wire: PauseReason): PauseReasonName | undefined {
  return wire === PauseReason.UNSPECIFIED ? undefined : (PauseReason[wire] as PauseReasonName);
}

function toSampleInfo(wire: WireSample): SessionSampleInfo {
  const { name, instruction, contentDigest, imageDigest, verificationDigest } = wire;
  const { datasetId: dataset = '', sampleId: id = '', version = '' } = name ?? {};
  return { dataset, id, version, instruction, contentDigest, imageDigest, verificationDigest };
}

export function fromWireNetwork(wire: WireNetwork | undefined): Network {
  const mode = wire === undefined || wire.mode === NetworkMode.UNSPECIFIED ? NetworkMode.NONE : wire.mode;
  return { mode: NetworkMode[mode] as NetworkModeName, allow: wire?.allow ?? [] };
}

export function toWireNetwork({ mode, allow = [] }: Network) {
  return { mode: enumValue(NetworkMode, mode, 'network.mode'), allow: [...allow] };
}

export function fromWireLimits(wire: WireLimits): ResourceLimits {
  return {
    ...(wire.cpus === undefined ? {} : { cpus: wire.cpus }),
    ...(wire.memoryBytes === undefined ? {} : { memoryBytes: Number(wire.memoryBytes) }),
    ...(wire.diskBytes === undefined ? {} : { diskBytes: Number(wire.diskBytes) }),
    ...(wire.pids === undefined ? {} : { pids: wire.pids }),
  };
}

export function toWireLimits(limits: ResourceLimits) {
  return {
    ...(limits.cpus === undefined ? {} : { cpus: limits.cpus }),
    ...(limits.memoryBytes === undefined ? {} : { memoryBytes: BigInt(limits.memoryBytes) }),
    ...(limits.diskBytes === undefined ? {} : { diskBytes: BigInt(limits.diskBytes) }),
    ...(limits.pids === undefined ? {} : { pids: limits.pids }),
  };
}
