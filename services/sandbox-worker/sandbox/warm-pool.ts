import { typeid } from 'typeid-js';
import type { Logger } from '../../shared/log.ts';
import type { ContainerLimits, Engine, SandboxImage } from '../docker/engine.ts';
import type { Admission } from '../host/admission.ts';
import { completeLimits, type Sandbox } from './sandbox.ts';
import type { SandboxMaker, SandboxPlan } from './sandbox-maker.ts';

/** Marks a container of the pool with the name of its slot. A label cannot be changed, so it stays when a session takes it. */
export const warmLabel = 'dev.assay.warm';

/** The session that was just given a sandbox runs its first command; what follows for the pool can wait that long. */
const tellMs = 25;
const refillMs = 150;

/** What is kept ready. */
export interface WarmKind {
  /** The reference that sessions ask for. */
  readonly image: string;
  readonly limits: ContainerLimits;
  readonly count: number;
}

export interface WarmPoolDeps {
  readonly kinds: readonly WarmKind[];
  readonly engine: Engine;
  readonly maker: SandboxMaker;
  /** The labels that every container of the installation has. */
  readonly labels: Readonly<Record<string, string>>;
  readonly admission: Pick<Admission, 'checkSandbox'>;
  /** Called when the pool has become full, and when it is not full any more. */
  readonly changed: () => void;
  readonly log: Logger;
}

/** Sandboxes without a session: container started, guest connected, nothing ever run in them. */
export interface WarmPool {
  /** How many are ready, and how many there are when it is full. */
  readonly size: number;
  readonly capacity: number;
  readonly waiting: Iterable<Sandbox>;
  /** How often a session found one that fits, and how often it did not. */
  readonly hits: number;
  readonly misses: number;
  /** Whether the slot of this name is one of the pool's, ready or being made. */
  holds(name: string): boolean;
  /** What a reference was when the pool was last looked at, a few seconds ago. */
  known(reference: string): SandboxImage | undefined;
  /** One that fits, taken out for ever, if `others` more are left. Whoever takes it owns it from here on. */
  take(image: SandboxImage, limits: ContainerLimits, others: number): Sandbox | undefined;
  /** Counts a session that found none. */
  missed(): void;
  /** Drops what does not fit its image any more and makes what is missing, in the background. */
  fill(): void;
  died(containerId: string): void;
  /** Makes no more and removes all. */
  drain(): Promise<void>;
}

export function createWarmPool(deps: WarmPoolDeps): WarmPool {
  const { kinds, engine, maker, log } = deps;
  const ready = new Set<Sandbox>();
  /** Names of slots that are the pool's, whatever state their sandboxes are in. */
  const names = new Set<string>();
  const nameOf = new Map<Sandbox, string>();
  const images = new Map<string, SandboxImage>();
  const capacity = kinds.reduce((sum, { count }) => sum + count, 0);
  let drained = capacity === 0;
  let filling: Promise<void> | undefined;
  let timer: NodeJS.Timeout | undefined;
  let complaint = '';
  let hits = 0;
  let misses = 0;

  /** The sandbox is no longer the pool's. */
  function release(sandbox: Sandbox): void {
    ready.delete(sandbox);
    names.delete(nameOf.get(sandbox) ?? '');
    nameOf.delete(sandbox);
  }

  async function discard(sandbox: Sandbox, why: string): Promise<void> {
    ready.delete(sandbox);
    try {
      await maker.discard(sandbox, why);
    } catch (error) {
      log.warn({ container: sandbox.file.containerId, err: error }, 'a warm sandbox could not be removed');
    }
    // Only now: until everything of it is gone the sweep must not take it for somebody else's.
    release(sandbox);
  }

  function fillLater(): void {
    if (timer !== undefined) return;
    timer = setTimeout(pool.fill, refillMs).unref();
    setTimeout(deps.changed, tellMs).unref();
  }

  function fits({ file }: Sandbox, imageId: string, limits: ContainerLimits): boolean {
    if (file.imageId !== imageId || file.limits === undefined) return false;
    const own = completeLimits(file.limits, limits);
    return (
      own.cpus === limits.cpus &&
      own.memoryBytes === limits.memoryBytes &&
      own.diskBytes === limits.diskBytes &&
      own.pids === limits.pids
    );
  }

  async function make({ limits }: WarmKind, image: SandboxImage): Promise<void> {
    const name = typeid('warm').toString();
    const labels = { ...deps.labels, [warmLabel]: name };
    const plan: SandboxPlan = {
      ...{ name, image, limits, labels, background: true },
      ...{ project: '', sessionId: '', env: {} },
    };
    names.add(name);
    let sandbox: Sandbox | undefined;
    try {
      sandbox = await maker.open(plan);
      nameOf.set(sandbox, name);
      const made = sandbox;
      made.violated = (reason) => void discard(made, `its guest broke the protocol: ${reason}`);
      await maker.start(made, plan);
      ready.add(made);
    } catch (error) {
      if (sandbox !== undefined) await discard(sandbox, 'it could not be made');
      names.delete(name);
      throw error;
    }
  }

  async function fillKind(kind: WarmKind): Promise<void> {
    const image = await engine.image(kind.image);
    images.set(kind.image, image);
    const mine = () => [...ready].filter((sandbox) => fits(sandbox, image.id, kind.limits)).length;
    while (!drained && mine() < kind.count) {
      deps.admission.checkSandbox({ ...kind.limits, project: '' });
      await make(kind, image);
    }
  }

  /** An image of that name that was replaced leaves sandboxes that nobody will ask for. */
  async function dropUnwanted(): Promise<void> {
    const wanted = kinds.map(({ image, limits }) => ({ id: images.get(image)?.id ?? '', limits }));
    for (const sandbox of ready) {
      if (!wanted.some(({ id, limits }) => fits(sandbox, id, limits))) await discard(sandbox, 'its image was replaced');
    }
  }

  async function fillAll(): Promise<void> {
    const before = ready.size;
    for (const kind of kinds) {
      try {
        await fillKind(kind);
        complaint = '';
      } catch (error) {
        // It is tried again every few seconds; said once is enough.
        const message = (error as Error).message;
        if (message !== complaint) log.warn({ image: kind.image, err: error }, 'the warm pool could not be filled');
        complaint = message;
      }
    }
    await dropUnwanted();
    if (before < ready.size && ready.size === capacity) deps.changed();
  }

  const pool: WarmPool = {
    capacity,
    get size() {
      return ready.size;
    },
    get waiting() {
      return ready.values();
    },
    get hits() {
      return hits;
    },
    get misses() {
      return misses;
    },
    holds: (name) => names.has(name),
    known: (reference) => images.get(reference),
    take(image, limits, others) {
      const fitting = [...ready].filter((sandbox) => fits(sandbox, image.id, limits));
      for (const sandbox of fitting) if (!sandbox.connected) void discard(sandbox, 'its guest is gone');
      const [sandbox, ...left] = fitting.filter(({ connected }) => connected);
      if (sandbox === undefined || left.length < others) return undefined;
      release(sandbox);
      fillLater();
      hits += 1;
      return sandbox;
    },
    missed() {
      misses += 1;
    },
    fill() {
      clearTimeout(timer);
      timer = undefined;
      if (drained || filling !== undefined) return;
      filling = fillAll().finally(() => {
        filling = undefined;
      });
    },
    died(containerId) {
      for (const sandbox of ready) {
        if (sandbox.file.containerId !== containerId) continue;
        log.warn({ container: containerId }, 'a warm sandbox ended by itself or was removed');
        void discard(sandbox, 'its container is gone').then(fillLater);
      }
    },
    async drain() {
      drained = true;
      clearTimeout(timer);
      await filling;
      await Promise.all([...ready].map((sandbox) => discard(sandbox, 'the worker is stopping')));
    },
  };
  return pool;
}
