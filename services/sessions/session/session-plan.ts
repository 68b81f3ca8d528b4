import { create } from '@bufbuild/protobuf';
import {
  type CreateSessionRequest,
  type SessionSample,
  SessionSampleSchema,
} from '../../../gen/assay/v1/session_pb.js';
import { type Network, type ResourceLimits, ResourceLimitsSchema } from '../../../gen/assay/v1/types_pb.js';
import type { Limits } from '../config.ts';
import type { DatasetIndex } from '../sample/dataset-index.ts';
import { findSample } from '../sample/find-sample.ts';
import type { SampleShelf } from '../sample/sample-shelf.ts';
import { environmentOf } from '../sample/sample-view.ts';
import { checkEnv } from '../validation/environment.ts';
import { checkNetwork } from '../validation/network.ts';
import { checkLimits } from '../validation/session-request.ts';

/** What a session is to be, once the sample that it is made from has had its say. */
export interface SessionPlan {
  readonly limits: ResourceLimits | undefined;
  readonly network: Network | undefined;
  readonly env: Record<string, string>;
  readonly sample: SessionSample | undefined;
}

/** Looks up what a request asks for. The contents of a sample are where its worker finds them when this resolves. */
export type SessionPlanner = (request: CreateSessionRequest) => Promise<SessionPlan>;

export function createSessionPlanner(datasets: DatasetIndex, shelf: SampleShelf, serverLimits: Limits): SessionPlanner {
  return async (request) => {
    const name = request.sample;
    if (name === undefined)
      return { limits: request.limits, network: request.network, env: request.env, sample: undefined };
    const { folder } = findSample(await datasets.catalog(), name);
    const { sample, digests } = folder;
    const { limits: own, network } = environmentOf(folder);
    const limits = { ...create(ResourceLimitsSchema, own), ...given(request.limits) };
    const env = { ...sample.environment.env, ...request.env };
    // What a sample asks for is subject to what the operator allows, like everything that is asked for.
    checkLimits(limits, serverLimits);
    checkNetwork('network', network, serverLimits.egressHosts);
    checkEnv('env', env);
    await shelf.provide(folder);
    return {
      limits,
      network,
      env,
      sample: create(SessionSampleSchema, {
        name: { ...name, version: sample.version },
        instruction: sample.instruction,
        ...{ contentDigest: digests.content, imageDigest: digests.image, verificationDigest: digests.verification },
      }),
    };
  };
}

function given(limits: ResourceLimits | undefined): Partial<ResourceLimits> {
  const entries = Object.entries(limits ?? {}).filter(([name, value]) => value !== undefined && !name.startsWith('$'));
  return Object.fromEntries(entries);
}
