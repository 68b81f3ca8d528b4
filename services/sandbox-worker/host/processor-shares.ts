import type { Sandbox } from '../sandbox/sandbox.ts';

/** How often to measure. A look costs about 15 microseconds for each sandbox. */
const lookMs = 1_000;
/** A project is held to its busiest moment for this long: sessions that rest every other second gain nothing. */
const memoryLooks = 10;

type Measured = Pick<Sandbox, 'project' | 'cgroups'>;

/**
 * Shares the host's processors between projects: the sandboxes of a project weigh as much together as one sandbox of a
 * project that has no other. Alone on the host, a project has all of it. Gradings have a full weight each, so that no
 * number of busy sessions makes a grading late.
 */
export interface ProcessorShares {
  /** To be called often; measures once a second. */
  look(nowMs: number): void;
}

export function createProcessorShares(live: () => Iterable<Measured>): ProcessorShares {
  let used = new Map<Measured, number>();
  let parts = new Map<Measured, number>();
  /** The number of active sandboxes of each project, at its last looks. */
  const active = new Map<string, number[]>();
  let dueMs = 0;

  /** What each sandbox used since the last look, by project. */
  function measure(): Map<string, { sum: number; most: number }> {
    const byProject = new Map<string, { sum: number; most: number }>();
    const now = new Map<Measured, number>();
    for (const sandbox of live()) {
      const micros = sandbox.cgroups?.processors?.usedMicros();
      if (micros === undefined) continue;
      now.set(sandbox, micros);
      const spent = Math.max(0, micros - (used.get(sandbox) ?? micros));
      const { sum, most } = byProject.get(sandbox.project) ?? { sum: 0, most: 0 };
      byProject.set(sandbox.project, { sum: sum + spent, most: Math.max(most, spent) });
    }
    used = now;
    return byProject;
  }

  /** The part of a full weight that each sandbox of the project gets. */
  function partOf(project: string, { sum, most }: { sum: number; most: number }): number {
    // Ten sandboxes that work alike count as ten, ten of which one does nearly all of the work as little more than one.
    const count = most === 0 ? 1 : sum / most;
    const looks = [...(active.get(project) ?? []), count].slice(-memoryLooks);
    active.set(project, looks);
    // In powers of two, so that weights do not change at every look.
    return 1 / 2 ** Math.round(Math.log2(Math.max(1, ...looks)));
  }

  return {
    look(nowMs) {
      if (nowMs < dueMs) return;
      dueMs = nowMs + lookMs;
      const byProject = measure();
      for (const project of active.keys()) if (!byProject.has(project)) active.delete(project);
      const partsOf = new Map([...byProject].map(([project, use]) => [project, partOf(project, use)]));
      const before = parts;
      parts = new Map();
      for (const sandbox of used.keys()) {
        const part = partsOf.get(sandbox.project) ?? 1;
        // A new one has the weight that the engine gave it, or the worker before this one: both are written over.
        if (before.get(sandbox) !== part) sandbox.cgroups?.processors?.weigh(part);
        parts.set(sandbox, part);
      }
    },
  };
}
