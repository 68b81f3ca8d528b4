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
  put(key: string, value: T, revision: number, writtenAtMs: number): void;
  delete(key: string): void;
  /** Calls back on every change of this key. Returns what ends that. */
  subscribe(key: string, listener: (seen: Seen<T>) => void): () => void;
}

export function createRecordMap<T>(now: () => number): RecordMap<T> {
  const records = new Map<string, Seen<T>>();
  const listeners = new Map<string, Set<(seen: Seen<T>) => void>>();
  return {
    get: (key) => records.get(key),
    entries: () => records.entries(),
    put(key, value, revision, writtenAtMs) {
      const held = records.get(key);
      if (held !== undefined && held.revision >= revision) return;
      const seen = { value, revision, seenAtMs: now(), writtenAtMs };
      records.set(key, seen);
      for (const listener of [...(listeners.get(key) ?? [])]) listener(seen);
    },
    delete: (key) => void records.delete(key),
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
