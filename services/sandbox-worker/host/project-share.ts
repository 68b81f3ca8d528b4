import { DomainError } from '../../shared/domain-error.ts';

/** The most slots that one project may hold: its share, and all but one at most. A single slot cannot be shared. */
export function projectSlots(slots: number, sharePercent: number): number {
  if (sharePercent === 100 || slots === 1) return slots;
  return Math.min(Math.max(Math.floor((slots * sharePercent) / 100), 1), slots - 1);
}

export interface ProjectLimitSpec {
  readonly limit: number;
  /** Of the refusal. */
  readonly reason: 'BUILD_QUOTA' | 'VALIDATION_QUOTA';
  /** What is counted, in the plural, and the setting that has the limit. */
  readonly what: string;
  readonly setting: string;
}

/** Counts what each project has under way or waiting. Throws where that is as much as it may be; returns what ends the count. */
export type ProjectLimit = (project: string) => () => void;

export function createProjectLimit({ limit, reason, what, setting }: ProjectLimitSpec): ProjectLimit {
  const counts = new Map<string, number>();
  return (project) => {
    const count = counts.get(project) ?? 0;
    if (count >= limit) {
      const found = `the project has ${count} ${what} under way or waiting on this worker, as many as it may have`;
      throw new DomainError(reason, `${found} (${setting}); wait until one has ended`, { limit: String(limit) });
    }
    counts.set(project, count + 1);
    return () => {
      const left = (counts.get(project) ?? 1) - 1;
      if (left > 0) counts.set(project, left);
      else counts.delete(project);
    };
  };
}
