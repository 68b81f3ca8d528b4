import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from '../../shared/log.ts';
import type { ContainerOrder, GradingContainer, GradingContainers } from './grading-container.ts';

/** A container that nobody needed for so long makes room. */
const idleMs = 600_000;
/** What was just taken is being filled and begins its tests; the next can wait until that is done. */
const fillDelayMs = 250;

/**
 * Grading containers that run already, with nothing in them but their guest, for the images and limits that were asked for
 * last. Each is used once. Starting is the slow part of a container, so those that were only created would save little.
 */
export interface GradingPool extends GradingContainers {
  /** Those that wait. */
  readonly waiting: number;
  /** Resolves when nothing is being made. */
  settled(): Promise<void>;
  close(): Promise<void>;
}

export interface GradingPoolDeps {
  readonly containers: GradingContainers;
  /** Of all kinds together. 0: every container is made when it is needed. */
  readonly size: number;
  readonly log: Logger;
}

/** Those of one image and limits. */
interface Kind {
  readonly order: ContainerOrder;
  readonly waiting: Waiting[];
}

interface Waiting {
  readonly container: GradingContainer;
  readonly timer: NodeJS.Timeout;
}

export function createGradingPool({ containers, size, log }: GradingPoolDeps): GradingPool {
  /** The kind that was asked for last is the last. */
  const kinds = new Map<string, Kind>();
  const removals = new Set<Promise<void>>();
  const closing = new AbortController();
  let making: Promise<void> | undefined;

  const count = (): number => [...kinds.values()].reduce((sum, { waiting }) => sum + waiting.length, 0);

  const drop = ({ container, timer }: Waiting): void => {
    clearTimeout(timer);
    const removal = container
      .remove()
      .catch((error: unknown) => log.error({ container: container.id, err: error }, 'left for the next sweep'))
      .finally(() => removals.delete(removal));
    removals.add(removal);
  };

  const touch = (order: ContainerOrder): Kind => {
    const key = JSON.stringify([order.imageId, order.limits]);
    const kind = kinds.get(key) ?? {
      order: { ...order, verificationId: undefined, project: undefined, background: true },
      waiting: [],
    };
    kinds.delete(key);
    kinds.set(key, kind);
    for (const [oldest, { waiting }] of kinds) {
      if (kinds.size <= size) break;
      kinds.delete(oldest);
      waiting.splice(0).forEach(drop);
    }
    return kind;
  };

  const make = async (kind: Kind): Promise<void> => {
    const container = await containers.create(kind.order);
    try {
      await container.startEmpty();
      await container.connect(closing.signal);
    } catch (error) {
      await container.remove();
      throw error;
    }
    const waiting: Waiting = { container, timer: setTimeout(() => expire(kind, waiting), idleMs).unref() };
    if (closing.signal.aborted || ![...kinds.values()].includes(kind)) drop(waiting);
    else kind.waiting.push(waiting);
  };

  const expire = (kind: Kind, waiting: Waiting): void => {
    const at = kind.waiting.indexOf(waiting);
    if (at >= 0) kind.waiting.splice(at, 1).forEach(drop);
  };

  /** One at a time, for the kind that was asked for last; the others give way where there are too many. */
  const fill = async (): Promise<void> => {
    await delay(fillDelayMs, undefined, { signal: closing.signal });
    for (let latest = next(); latest !== undefined; latest = next()) await make(latest);
  };
  const next = (): Kind | undefined => {
    const [latest] = [...kinds.values()].reverse();
    if (latest === undefined || closing.signal.aborted) return undefined;
    if (count() < size) return latest;
    const oldest = [...kinds.values()].find(({ waiting }) => waiting.length > 0);
    if (oldest === undefined || latest.waiting.length > 0) return undefined;
    oldest.waiting.splice(0, 1).forEach(drop);
    return latest;
  };
  const fillSoon = (): void => {
    making ??= fill()
      .catch((error: unknown) => {
        if (!closing.signal.aborted) log.warn({ err: error }, 'a grading container could not be made ahead');
      })
      .finally(() => {
        making = undefined;
      });
  };

  return {
    get waiting() {
      return count();
    },
    sweep: containers.sweep,
    async settled() {
      while (making !== undefined) await making;
    },
    async create(order) {
      if (size === 0) return containers.create(order);
      const kind = touch(order);
      let found = kind.waiting.shift();
      for (; found !== undefined && !found.container.alive; found = kind.waiting.shift()) drop(found);
      fillSoon();
      if (found === undefined) return containers.create(order);
      clearTimeout(found.timer);
      return found.container;
    },
    async close() {
      closing.abort();
      await making;
      for (const { waiting } of kinds.values()) waiting.splice(0).forEach(drop);
      await Promise.all(removals);
    },
  };
}
