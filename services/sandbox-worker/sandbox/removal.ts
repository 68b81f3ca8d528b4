import { DomainError } from '../../shared/domain-error.ts';
import type { Engine } from '../docker/engine.ts';

/** The engine is asked for over a minute; a worker that starts must not be held up that long by one container. */
const patienceMs = 10_000;

/** Resolves when the container is gone. Rejects when it does not go, or not soon: then it is still being removed. */
export type Removal = (containerId: string) => Promise<void>;

/** Removes each container once at a time, however often it is asked for. */
export function createRemoval(engine: Pick<Engine, 'remove'>): Removal {
  const underWay = new Map<string, Promise<void>>();
  return async (id) => {
    const going = underWay.get(id) ?? engine.remove(id).finally(() => underWay.delete(id));
    underWay.set(id, going);
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      const message = `container ${id} is still being removed`;
      timer = setTimeout(() => reject(new DomainError('ENGINE_FAILED', message)), patienceMs);
    });
    try {
      await Promise.race([going, late]);
    } finally {
      clearTimeout(timer);
    }
  };
}
