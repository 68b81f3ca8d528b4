import type { SessionState } from '../../../gen/assay/v1/session_pb.js';
import type { ArchiveEntry } from '../../shared/store/session-archive.ts';
import { createIdSet, hashOfId } from './id-set.ts';

/** Where an archived session is in a list. */
export type IndexedSession = Pick<ArchiveEntry, 'createMs' | 'place'>;

/**
 * Where the archived sessions of each project are, in the order of their creation. It holds some thirty bytes for each, in
 * arrays without objects, so that a million of them cost neither much memory nor the collector's time.
 */
export interface EndedIndex {
  /** How many there are. */
  readonly size: number;
  add(entry: ArchiveEntry): void;
  /** Whether a session of this id may be among them. No is sure. */
  mayHold(sessionId: string): boolean;
  /**
   * Newest first, those created at `fromMs` or before it that ended in one of these states (none: in any): `count` if there
   * are so many, and all that were created in the same millisecond as the last of these.
   */
  page(project: string, fromMs: number, count: number, states: ReadonlySet<SessionState>): IndexedSession[];
  /** What the sessions of each project take of the archive. */
  bytesByProject(): Map<string, number>;
  /** The place before which the sessions of a project take about so many bytes of the archive, and not fewer. */
  cut(project: string, bytes: number): number;
  /** Forgets those of a project, or of all, before a place. */
  dropBefore(place: number, project?: string): void;
}

export function createEndedIndex(): EndedIndex {
  const projects = new Map<string, Columns>();
  let ids = createIdSet();
  const count = (): number => projects.values().reduce((sum, { length }) => sum + length, 0);
  /** The set forgets nothing by itself. */
  const tidyIds = (): void => {
    if (ids.size <= 2 * count() + fewIds) return;
    ids = createIdSet();
    for (const columns of projects.values()) columns.eachId(ids.add);
  };
  const prune = (project: string, columns: Columns | undefined, place: number): void => {
    columns?.dropBefore(place);
    if (columns?.length === 0) projects.delete(project);
  };
  return {
    get size() {
      return count();
    },
    mayHold: (sessionId) => ids.has(hashOfId(sessionId)),
    add(entry) {
      ids.add(hashOfId(entry.sessionId));
      const columns = projects.get(entry.project) ?? new Columns();
      projects.set(entry.project, columns);
      columns.insert(entry);
    },
    page: (project, fromMs, count, states) => projects.get(project)?.page(fromMs, count, states) ?? [],
    bytesByProject: () => new Map([...projects].map(([project, columns]) => [project, columns.totalBytes])),
    cut: (project, bytes) => projects.get(project)?.cut(bytes) ?? 0,
    dropBefore(place, project) {
      const pruned = project === undefined ? [...projects.keys()] : [project];
      for (const name of pruned) prune(name, projects.get(name), place);
      tidyIds();
    },
  };
}

const firstCapacity = 8;
const bins = 4_096;
const fewIds = 1_024;

/** Parallel columns in the order of creation. */
class Columns {
  length = 0;
  totalBytes = 0;
  #created = new Float64Array(firstCapacity);
  #places = new Float64Array(firstCapacity);
  #bytes = new Uint32Array(firstCapacity);
  #states = new Uint8Array(firstCapacity);
  #ids = new Uint32Array(firstCapacity);

  insert({ createMs, place, bytes, state, sessionId }: ArchiveEntry): void {
    if (this.length === this.#created.length) this.#resize(2 * this.length);
    const index = this.#firstAfter(createMs);
    if (index < this.length) {
      const columns = [this.#created, this.#places, this.#bytes, this.#states, this.#ids];
      for (const column of columns) column.copyWithin(index + 1, index, this.length);
    }
    this.#created[index] = createMs;
    this.#places[index] = place;
    this.#bytes[index] = bytes;
    this.#states[index] = state;
    this.#ids[index] = hashOfId(sessionId);
    this.length += 1;
    this.totalBytes += bytes;
  }

  page(fromMs: number, count: number, states: ReadonlySet<SessionState>): IndexedSession[] {
    const found: IndexedSession[] = [];
    for (let index = this.#firstAfter(fromMs) - 1; index >= 0; index -= 1) {
      const createMs = this.#created[index] ?? 0;
      if (found.length >= count && createMs !== found.at(-1)?.createMs) break;
      const state: SessionState = this.#states[index] ?? 0;
      if (states.size > 0 && !states.has(state)) continue;
      found.push({ createMs, place: this.#places[index] ?? 0 });
    }
    return found;
  }

  /** By a histogram of the places: sorting a million of them would hold up everybody. */
  cut(bytes: number): number {
    const places = this.#places.subarray(0, this.length);
    const first = places.reduce((least, place) => Math.min(least, place), Number.POSITIVE_INFINITY);
    const last = places.reduce((most, place) => Math.max(most, place), 0);
    const width = Math.ceil((last + 1 - first) / bins);
    const sums = new Float64Array(bins);
    places.forEach((place, index) => {
      const bin = Math.floor((place - first) / width);
      sums[bin] = (sums[bin] ?? 0) + (this.#bytes[index] ?? 0);
    });
    let bin = 0;
    for (let freed = 0; freed < bytes && bin < bins; bin += 1) freed += sums[bin] ?? 0;
    return first + bin * width;
  }

  dropBefore(place: number): void {
    let kept = 0;
    this.totalBytes = 0;
    for (let index = 0; index < this.length; index += 1) {
      if ((this.#places[index] ?? 0) < place) continue;
      if (kept < index) this.#copy(index, kept);
      this.totalBytes += this.#bytes[kept] ?? 0;
      kept += 1;
    }
    this.length = kept;
    if (kept < this.#created.length / 4) this.#resize(Math.max(firstCapacity, 2 * kept));
  }

  eachId(tell: (hash: number) => void): void {
    for (const hash of this.#ids.subarray(0, this.length)) tell(hash);
  }

  #copy(from: number, to: number): void {
    this.#created[to] = this.#created[from] ?? 0;
    this.#places[to] = this.#places[from] ?? 0;
    this.#bytes[to] = this.#bytes[from] ?? 0;
    this.#states[to] = this.#states[from] ?? 0;
    this.#ids[to] = this.#ids[from] ?? 0;
  }

  /** The first index whose session was created later. Most sessions end in the order of their creation, so it is near the end. */
  #firstAfter(createMs: number): number {
    let low = 0;
    let high = this.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#created[middle] ?? 0) <= createMs) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #resize(capacity: number): void {
    const grown = <T extends Float64Array | Uint32Array | Uint8Array>(column: T, next: T): T => {
      next.set(column.subarray(0, this.length));
      return next;
    };
    this.#created = grown(this.#created, new Float64Array(capacity));
    this.#places = grown(this.#places, new Float64Array(capacity));
    this.#bytes = grown(this.#bytes, new Uint32Array(capacity));
    this.#states = grown(this.#states, new Uint8Array(capacity));
    this.#ids = grown(this.#ids, new Uint32Array(capacity));
  }
}
