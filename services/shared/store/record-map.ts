import type { Stored } from './session-store.ts';

/** A record with the moment, on this process's own clock, at which it was seen to change. */
export interface Seen<T> extends Stored<T> {
  readonly revision: number;
  readonly seenAtMs: number;
  readonly writtenAtMs: number;
}

/** Records by key. An older revision never replaces a newer one, in whatever order they come. */
export interface RecordMap<T> {
  get(key: string): Seen<T> | undefined;
  entries(): MapIterator<[string, Seen<T>]>;
  /** Those whose keys begin with `<group>.`, without a look at the others. */
  ofGroup(group: string): Iterable<Seen<T>>;
  put(key: string, value: T, revision: number, writtenAtMs: number): void;
  delete(key: string): void;
  /** Calls back on every change of this key. Returns what ends that. */
  subscribe(key: string, listener: (seen: Seen<T>) => void): () => void;
}

export function createRecordMap<T>(now: () => number): RecordMap<T> {
  const records = new Map<string, Seen<T>>();
  const groups = new Map<string, Map<string, Seen<T>>>();
  const listeners = new Map<string, Set<(seen: Seen<T>) => void>>();
  return {
    get: (key) => records.get(key),
    entries: () => records.entries(),
    ofGroup: (group) => groups.get(group)?.values() ?? [],
    put(key, value, revision, writtenAtMs) {
      const held = records.get(key);
      if (held !== undefined && held.revision >= revision) return;
      const seen = { value, revision, seenAtMs: now(), writtenAtMs };
      records.set(key, seen);
      const group = groupOf(key);
      const members = groups.get(group) ?? new Map<string, Seen<T>>();
      groups.set(group, members.set(key, seen));
      for (const listener of [...(listeners.get(key) ?? [])]) listener(seen);
    },
    delete(key) {
      records.delete(key);
      const group = groupOf(key);
      const members = groups.get(group);
      members?.delete(key);
      if (members?.size === 0) groups.delete(group);
    },
    subscribe(key, listener) {
      const set = listeners.get(key) ?? new Set();
      listeners.set(key, set.add(listener));
      return () => {
        set.delete(listener);
        if (set.size === 0 && listeners.get(key) === set) listeners.delete(key);
      };
    },
  };
}

function groupOf(key: string): string {
  const end = key.indexOf('.');
  return end < 0 ? key : key.slice(0, end);
}
