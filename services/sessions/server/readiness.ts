import type { SideStoreRoom, StoreRoom } from '../../shared/store/store-room.ts';
import type { KnownWorker, WorkerDirectory } from '../worker/worker-directory.ts';
import type { WorkerProbe } from '../worker/worker-probe.ts';

/** What was found when somebody looked whether this instance can serve. */
export interface Findings {
  readonly ok: boolean;
  /** False once it is about to stop. */
  readonly serving: boolean;
  /** `ok`, or why the broker cannot be used. */
  readonly store: string;
  readonly reachableWorkers: number;
  /** One sentence for each reason why it cannot serve. */
  readonly problems: readonly string[];
  /** What goes wrong while sessions are served: workers that cannot be reached or take no new work, stores that are full or fail. A sentence for each. */
  readonly warnings: readonly string[];
}

/** Whether this instance can serve: for load balancers, orchestrators and people. */
export interface Readiness {
  /** As it was found last. */
  readonly ready: boolean;
  /** Looks now, unless that was done just before. Never takes long. */
  look(): Promise<Findings>;
  /** Calls back when it changes. Returns what ends that. */
  onChange(listener: () => void): () => void;
  /** Says from now on that this instance is about to stop. */
  stop(): void;
}

export interface ReadinessDeps {
  readonly connected: () => boolean;
  /** The room of every store of records: without one of them nothing is served. Rejects when the broker cannot be used. */
  readonly rooms: () => Promise<readonly StoreRoom[]>;
  /** The room of the stores without which sessions are served all the same. */
  readonly sideRooms: () => Promise<readonly SideStoreRoom[]>;
  readonly workers: Pick<WorkerDirectory, 'all'>;
  /** Tries to connect to every registered worker. */
  readonly probeWorkers: WorkerProbe;
}

/** A store with less room than this takes records for a little while at most. */
const fullShare = 0.98;
const lookEveryMs = 2_000;
/** What was found so short a time ago is told again. */
const believedMs = 1_000;
/** A broker that needs longer has a problem, and whoever asks is not to wait for it. */
const brokerMs = 2_000;
/** The same for a worker: what an attempt that goes on comes to is told at the next look. */
const workerMs = 2_000;

/** What was found of the stores. */
interface StoreFindings {
  /** `ok`, or why the broker cannot be used. */
  readonly store: string;
  readonly full: readonly string[];
  readonly warnings: readonly string[];
}

export function createReadiness({ connected, rooms, sideRooms, workers, probeWorkers }: ReadinessDeps): Readiness {
  const listeners = new Set<() => void>();
  let stopping = false;
  let ready = false;
  let stores: { atMs: number; found: Promise<StoreFindings> } | undefined;
  let probe: { atMs: number; of: ReadonlySet<string>; done: Promise<void> } | undefined;

  const change = (now: boolean): void => {
    if (ready === now) return;
    ready = now;
    for (const listener of [...listeners]) listener();
  };
  const askStores = async (): Promise<StoreFindings> => {
    const side = within(brokerMs, sideRooms()).then(sideProblems, (error: Error) => [
      `object stores and streams cannot be looked at: ${error.message}`,
    ]);
    try {
      const list = await within(brokerMs, rooms());
      return { store: 'ok', full: list.filter(isFull).map(fullness), warnings: await side };
    } catch (error) {
      return { store: (error as Error).message, full: [], warnings: [] };
    }
  };
  const lookAtStores = (): Promise<StoreFindings> => {
    const now = performance.now();
    if (stores === undefined || now - stores.atMs > believedMs) stores = { atMs: now, found: askStores() };
    return stores.found;
  };
  const lookForWorkers = (): Promise<void> => {
    const now = performance.now();
    const of = new Set(workers.all().map(placeOf));
    // A worker that has just come, or has moved, counts only once somebody has tried to reach it.
    if (probe === undefined || now - probe.atMs > believedMs || !of.isSubsetOf(probe.of)) {
      probe = { atMs: now, of, done: within(workerMs, probeWorkers()).catch(() => {}) };
    }
    return probe.done;
  };
  const look = async (): Promise<Findings> => {
    const gone: StoreFindings = { store: 'there is no connection to the broker', full: [], warnings: [] };
    const [found] = await Promise.all([connected() ? lookAtStores() : gone, lookForWorkers()]);
    const { store, full } = found;
    const registered = workers.all().filter((worker) => worker.reachable && probe?.of.has(placeOf(worker)));
    const reachable = registered.filter(({ connectFailure }) => connectFailure === undefined);
    const unreachable = registered.flatMap(connectProblem);
    const working = reachable.filter(({ record }) => record.engineProblem === '').length;
    const problems = [
      ...(stopping ? ['this instance is about to stop'] : []),
      ...(store === 'ok' ? [] : [`the broker cannot be used: ${store}`]),
      ...full,
      ...(reachable.length === 0 ? ['no worker is reachable', ...unreachable] : []),
      ...(reachable.length > 0 && working === 0 ? ['no reachable worker has an engine that answers'] : []),
    ];
    const pressed = reachable.filter(({ record }) => record.pressure !== '');
    const warnings = [
      ...(reachable.length === 0 ? [] : unreachable),
      ...pressed.map(({ record }) => `worker ${record.workerId}: ${record.pressure}`),
      ...reachable.flatMap(({ record }) => record.shortages.map((short) => `worker ${record.workerId}: ${short}`)),
      ...found.warnings,
    ];
    const ok = problems.length === 0;
    change(ok);
    return { ok, serving: !stopping, store, reachableWorkers: reachable.length, problems, warnings };
  };
  const looking = setInterval(() => void look(), lookEveryMs);
  looking.unref();
  return {
    get ready() {
      return ready;
    },
    look,
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    stop() {
      stopping = true;
      clearInterval(looking);
      change(false);
    },
  };
}

function placeOf({ record }: KnownWorker): string {
  return `${record.workerId} ${record.address}`;
}

function connectProblem({ record, connectFailure }: KnownWorker): string[] {
  // A worker that says it is about to stop may have done so.
  if (connectFailure === undefined || record.draining) return [];
  return [`worker ${record.workerId} advertised ${record.address} but cannot be reached: ${connectFailure}`];
}

function isFull({ bytes, maxBytes }: StoreRoom): boolean {
  return maxBytes > 0 && bytes > maxBytes * fullShare;
}

function fullness({ name, bytes, maxBytes }: StoreRoom): string {
  return `the store ${name} is full: ${bytes} of ${maxBytes} bytes`;
}

function sideProblems(rooms: readonly SideStoreRoom[]): string[] {
  return rooms.flatMap((room) => {
    if (room.failure !== undefined) return [`the store ${room.name} cannot be used: ${room.failure}`];
    return isFull(room) ? [`${fullness(room)}; ${room.whenFull}`] : [];
  });
}

async function within<T>(ms: number, answer: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error(`no answer within ${ms} ms`)), ms);
  try {
    return await Promise.race([answer, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
