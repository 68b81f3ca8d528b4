import { DomainError } from '../../shared/domain-error.ts';

/** The places of a worker for sandboxes, and which project has how many of them. */
export interface Places {
  /** Why the project gets no place now; undefined: it gets one. */
  refusal(project: string): DomainError | undefined;
  /** Gives a place to a session, unless it has one. Throws the refusal. */
  take(sessionId: string, project: string): void;
  /** Counts a session that is here, whatever the limits say. */
  hold(sessionId: string, project: string): void;
  free(sessionId: string): void;
}

/**
 * A project gets another place while it has fewer than `share : 1 - share` times those that are free. So one project alone
 * gets that share of all, whoever comes next the same share of the rest, and something is left for the one after that. Of
 * so few places that the rest is less than one, a project may get all.
 */
export function createPlaces(capacity: number, sharePercent: number): Places {
  const projectOf = new Map<string, string>();
  const heldBy = new Map<string, number>();

  function count(project: string, change: 1 | -1): void {
    const held = (heldBy.get(project) ?? 0) + change;
    if (held > 0) heldBy.set(project, held);
    else heldBy.delete(project);
  }

  const places: Places = {
    refusal(project) {
      const free = capacity - projectOf.size;
      if (free <= 0) {
        const message = `the worker holds ${projectOf.size} sandboxes, as many as it can; close a session, or try again later`;
        return new DomainError('NO_CAPACITY', message, { capacity: String(capacity) });
      }
      const held = heldBy.get(project) ?? 0;
      if (held * (100 - sharePercent) < sharePercent * free) return undefined;
      const message =
        `the project has ${held} of this worker's ${capacity} sandboxes, and the last ${free} are for other projects ` +
        `(ASSAY_PROJECT_SHARE is ${sharePercent} percent); close a session, or try again later`;
      return new DomainError('CAPACITY_SHARE', message, { capacity: String(capacity), limit: String(held) });
    },
    take(sessionId, project) {
      if (projectOf.has(sessionId)) return;
      const refusal = places.refusal(project);
      if (refusal !== undefined) throw refusal;
      places.hold(sessionId, project);
    },
    hold(sessionId, project) {
      if (projectOf.has(sessionId)) return;
      projectOf.set(sessionId, project);
      count(project, 1);
    },
    free(sessionId) {
      const project = projectOf.get(sessionId);
      if (project === undefined) return;
      projectOf.delete(sessionId);
      count(project, -1);
    },
  };
  return places;
}
