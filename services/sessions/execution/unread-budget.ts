/** What one stream may hold for a client that does not read, */
const streamBytes = 1_048_576;
/** and what it may hold while all streams of its project together hold more than this. */
const projectBytes = 64 * 1_048_576;
const leastBytes = 65_536;

/** What the streams of one project hold for clients that have not read it yet. */
export interface UnreadBytes {
  /** What one stream may hold now. */
  readonly streamLimit: number;
  add(bytes: number): void;
  remove(bytes: number): void;
}

/** Budgets by project: one whose clients read nothing takes the memory of this process from nobody. */
export interface UnreadBudgets {
  of(project: string): UnreadBytes;
}

export function createUnreadBudgets(): UnreadBudgets {
  const held = new Map<string, number>();
  return {
    of(project) {
      const change = (bytes: number): void => {
        const now = (held.get(project) ?? 0) + bytes;
        if (now === 0) held.delete(project);
        else held.set(project, now);
      };
      return {
        get streamLimit() {
          return (held.get(project) ?? 0) < projectBytes ? streamBytes : leastBytes;
        },
        add: change,
        remove: (bytes) => change(-bytes),
      };
    },
  };
}
