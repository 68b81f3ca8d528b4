import { setTimeout as delay } from 'node:timers/promises';
import type { Client, Session } from '../clients/typescript/index.ts';
import type { Setup } from '../scripts/setup/index.mjs';
import type { EngineApi } from './engine-api.ts';

/** One figure beside its reference, both from the same run. A ratio above 1 means that ours is better. */
export interface Measured {
  readonly ours: number;
  readonly reference: number;
  readonly unit: 'ms' | 'MB/s' | '1/s';
  readonly ratio: number;
  readonly samples: number;
  /** Beside idle sessions: how many times slower ours is than it was without them, in the same run. */
  readonly slowdown?: number;
}

/** What a bench may use. The session's container serves the reference too, so both run under the same limits. */
export interface Surroundings {
  readonly client: Client;
  readonly session: Session;
  readonly engine: EngineApi;
  readonly container: string;
  readonly setup: Setup;
  readonly dataDir: string;
}

/** The engine goes on for a while after it has answered; that is neither's time. */
export const settle = (): Promise<void> => delay(250);

export type Bench = (around: Surroundings) => Promise<Measured>;

/** Times taken in turn, ours and the reference's, so that a busy moment of the machine hits both. */
export async function alternate(
  rounds: number,
  ours: () => Promise<unknown>,
  reference: () => Promise<unknown>,
  each: { ours: number; reference: number },
): Promise<{ ours: number; reference: number; samples: number }> {
  const times = { ours: [] as number[], reference: [] as number[] };
  for (let round = 0; round < rounds; round++) {
    for (let count = 0; count < each.ours; count++) times.ours.push(await timed(ours));
    for (let count = 0; count < each.reference; count++) times.reference.push(await timed(reference));
    await settle();
  }
  return { ours: median(times.ours), reference: median(times.reference), samples: times.ours.length };
}

export async function timed(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

export function fasterIsLess({
  ours,
  reference,
  samples,
}: {
  ours: number;
  reference: number;
  samples: number;
}): Measured {
  return { ours, reference, unit: 'ms', ratio: reference / ours, samples };
}

export function fasterIsMore(unit: 'MB/s' | '1/s', ours: number, reference: number, samples: number): Measured {
  return { ours, reference, unit, ratio: ours / reference, samples };
}
