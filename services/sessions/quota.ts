import type { DomainError } from '../shared/domain-error.ts';

/** Does what makes the thing with this id, if the project may have one more. */
export type Quota = <T>(project: string, id: string, make: () => Promise<T>) => Promise<T>;

export interface QuotaSpec {
  readonly limit: number;
  /** The ids of what the project has, as far as this process has seen. */
  readonly idsOf: (project: string) => Promise<ReadonlySet<string>>;
  readonly refusal: (count: number, limit: number, project: string) => DomainError;
}

export function createQuota({ limit, idsOf, refusal }: QuotaSpec): Quota {
  /** Between their check and their record, so that a burst does not pass the quota together. By id: a record may be seen before its write is answered. */
  const arriving = new Map<string, Set<string>>();
  return async (project, id, make) => {
    const found = await idsOf(project);
    // No await between the count and the claim: of two that come together the second sees the first.
    const others = arriving.get(project) ?? new Set<string>();
    const count = found.union(others).size;
    if (count >= limit && !others.has(id)) throw refusal(count, limit, project);
    arriving.set(project, others.add(id));
    try {
      return await make();
    } finally {
      others.delete(id);
      if (others.size === 0) arriving.delete(project);
    }
  };
}
