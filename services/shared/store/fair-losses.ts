/** What the broker keeps beside the bytes of an object, about. */
const overheadBytes = 512;

interface Held {
  readonly name: string;
  readonly bytes: number;
  readonly storedMs: number;
}

interface Holder<T> {
  bytes: number;
  readonly newestFirst: T[];
}

/**
 * Which objects, named `<project>/…`, go to make room for a new one: always the oldest of the project that holds most, the
 * new one counted. So none loses anything while another one with something to lose holds more.
 */
export function fairLosses<T extends Held>(
  objects: readonly T[],
  coming: Pick<Held, 'name' | 'bytes'>,
  neededBytes: number,
): T[] {
  const newestFirst = objects.toSorted((a, b) => b.storedMs - a.storedMs);
  const holders = [...Map.groupBy(newestFirst, ({ name }) => projectOf(name))].map(([project, held]): Holder<T> => {
    const bytes = held.reduce((sum, object) => sum + weight(object), 0);
    return { newestFirst: held, bytes: project === projectOf(coming.name) ? bytes + coming.bytes : bytes };
  });
  const losses: T[] = [];
  for (let freed = 0; freed < neededBytes; ) {
    const most = largest(holders);
    const oldest = most?.newestFirst.pop();
    if (most === undefined || oldest === undefined) break;
    losses.push(oldest);
    freed += weight(oldest);
    most.bytes -= weight(oldest);
  }
  return losses;
}

function largest<T>(holders: readonly Holder<T>[]): Holder<T> | undefined {
  let most: Holder<T> | undefined;
  for (const holder of holders) {
    if (holder.newestFirst.length > 0 && holder.bytes > (most?.bytes ?? 0)) most = holder;
  }
  return most;
}

function weight({ bytes }: Held): number {
  return bytes + overheadBytes;
}

function projectOf(name: string): string {
  return name.split('/', 1)[0] ?? '';
}
