import type { ContainerSummary } from '../docker/engine.ts';
import type { Sandbox } from './sandbox.ts';
import { sessionLabel } from './sandboxes.ts';
import type { Slots } from './slot.ts';
import { warmLabel } from './warm-pool.ts';

/**
 * The name of the slot that each container belongs to. The label of one that was made for a session says it; one that
 * was made warm is told by the description in its slot, which has the session's name once a session took it.
 */
export function ownersOf(
  containers: readonly ContainerSummary[],
  live: Iterable<Sandbox>,
  slots: Slots,
): ReadonlyMap<ContainerSummary, string> {
  const adopted = new Map<string, string>();
  for (const { file } of live) adopted.set(file.containerId, file.sessionId);
  const warm = containers.filter(({ id, labels }) => labels[warmLabel] !== undefined && !adopted.has(id));
  if (warm.length > 0) {
    for (const name of slots.list()) adopted.set(containerIn(slots, name), name);
  }
  const ownerOf = ({ id, labels }: ContainerSummary): string =>
    labels[sessionLabel] ?? adopted.get(id) ?? labels[warmLabel] ?? '';
  return new Map(containers.map((container) => [container, ownerOf(container)]));
}

/** Empty where the slot is not described yet. */
function containerIn(slots: Slots, name: string): string {
  try {
    return slots.open(name).load().containerId;
  } catch {
    return '';
  }
}
