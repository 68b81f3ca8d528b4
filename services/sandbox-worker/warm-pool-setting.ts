import { z } from 'zod';
import type { WarmKind } from './sandbox/warm-pool.ts';

/** Together, whatever is asked for: each is a container with a few MiB, and they are made one after the other. */
const most = 1_000;
const expected =
  'expected 0, or image=count with commas between, such as base=2,python:3.12;cpus=2;memory=1073741824=1';
const limitNames = { cpus: 'cpus', memory: 'memoryBytes', disk: 'diskBytes', pids: 'pids' } as const;

/** One wish as it was written: limits that are absent are the worker's defaults. */
export interface WarmWish {
  readonly image: string;
  readonly count: number;
  readonly limits: Readonly<Partial<Record<(typeof limitNames)[keyof typeof limitNames], number>>>;
}

/** `image[;limit=value…]=count,…`; 0 or nothing: no warm sandboxes. */
export function warmPool(): z.ZodType<WarmWish[], string | undefined> {
  return z.string(expected).transform((text, context) => {
    const parts = text.split(',').map((part) => part.trim());
    const wishes = text.trim() === '0' || text.trim() === '' ? [] : parts.map(parseWish);
    const total = wishes.reduce((sum, wish) => sum + (wish?.count ?? 0), 0);
    if (wishes.every((wish) => wish !== undefined) && total <= most) return wishes.filter(({ count }) => count > 0);
    context.addIssue({ code: 'custom', message: total > most ? `expected at most ${most} together` : expected });
    return z.NEVER;
  }) as unknown as z.ZodType<WarmWish[], string | undefined>;
}

function parseWish(text: string): WarmWish | undefined {
  const [, what = '', digits] = /^(.+)=(\d{1,4})$/.exec(text) ?? [];
  const [image = '', ...given] = what.split(';');
  if (digits === undefined || !/^[a-z0-9][A-Za-z0-9._/:@-]{0,511}$/.test(image)) return undefined;
  const limits: Record<string, number> = {};
  for (const limit of given) {
    const [, name = '', value] = /^(\w+)=(\d+(?:\.\d+)?)$/.exec(limit) ?? [];
    if (!Object.hasOwn(limitNames, name) || !(Number(value) > 0)) return undefined;
    limits[limitNames[name as keyof typeof limitNames]] = Number(value);
  }
  return { image, count: Number(digits), limits };
}

/** What is to be kept ready; `base` is the image of sessions that ask for none. */
export function warmKinds(
  wishes: readonly WarmWish[],
  baseImage: string,
  defaults: WarmKind['limits'],
): readonly WarmKind[] {
  return wishes.map(({ image, count, limits }) => ({
    image: image === 'base' ? baseImage : image,
    count,
    limits: { ...defaults, ...limits },
  }));
}
