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
  /** To be called often: it measures once a second, and gives a new sandbox the weight of its project at once. */
  look(nowMs: number): void;
}

export function createProcessorShares(live: () => Iterable<Measured>): ProcessorShares {
  let used = new Map<Measured, number>();
  /** The part of a full weight that the sandboxes of each project have. */
  let parts = new Map<string, number>();
  const weighed = new WeakMap<Measured, number>();
  /** The number of active sandboxes of each project, at its last looks. */
  const active = new Map<string, number[]>();
  let dueMs = 0;
  let begun = false;

  /** What each sandbox used since the last look, by project. */
  function measure(): Map<string, { sum: number; most: number }> {
    const byProject = new Map<string, { sum: number; most: number }>();
    const now = new Map<Measured, number>();
    for (const sandbox of live()) {
      const micros = sandbox.cgroups?.processors?.usedMicros();
      if (micros === undefined) continue;
      now.set(sandbox, micros);
      // What those used that an earlier worker made is not of this second.
      const spent = Math.max(0, micros - (used.get(sandbox) ?? (begun ? 0 : micros)));
      const { sum, most } = byProject.get(sandbox.project) ?? { sum: 0, most: 0 };
      byProject.set(sandbox.project, { sum: sum + spent, most: Math.max(most, spent) });
    }
    used = now;
    begun = true;
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

  function measureAll(): void {
    const byProject = measure();
    for (const project of active.keys()) if (!byProject.has(project)) active.delete(project);
    parts = new Map([...byProject].map(([project, use]) => [project, partOf(project, use)]));
  }

  return {
    look(nowMs) {
      if (nowMs >= dueMs) {
        dueMs = nowMs + lookMs;
        measureAll();
      }
      for (const sandbox of live()) {
        const part = parts.get(sandbox.project) ?? 1;
        // The first time the weight is the engine's, or that of the worker before this one: it is written over.
        if (weighed.get(sandbox) === part) continue;
        sandbox.cgroups?.processors?.weigh(part);
        weighed.set(sandbox, part);
      }
    },
  };
}
