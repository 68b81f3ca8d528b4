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
 * new object and the uploads under way counted. Stops early at a project that holds most and has nothing stored: what it
 * uploads must not cost a smaller holder anything.
 */
export function fairLosses<T extends Held>(
  objects: readonly T[],
  coming: Pick<Held, 'name' | 'bytes'>,
  neededBytes: number,
  /** Bytes of the uploads under way, by project; without the new object. */
  underWay: ReadonlyMap<string, number> = new Map(),
): T[] {
  const holders = holdersOf(objects, coming, underWay);
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

/** The room in a bucket when a new object comes. */
export interface Room<T extends Held> {
  readonly objects: readonly T[];
  /** What the bucket takes, with the new object and what is still to come of the uploads under way. */
  readonly neededBytes: number;
  /** By project, without the new object. */
  readonly underWay: ReadonlyMap<string, number>;
  readonly maxBytes: number;
}

/** Above this share of a bucket, room is made. What is above is for the uploads of other processes. */
export const full = 7 / 8;
/** A project that does not hold most gets in up to here: what a larger one uploads does not keep it out. */
const reserved = 15 / 16;
/** The share that is left after making room, which reads the whole list and so is not done for each object. */
const roomy = 3 / 4;

/** Which objects go so that the new one fits. Undefined: the new object does not fit in what is fair, and nothing goes. */
export function makingRoom<T extends Held>(room: Room<T>, coming: Pick<Held, 'name' | 'bytes'>): T[] | undefined {
  const { objects, neededBytes, underWay, maxBytes } = room;
  const losses = fairLosses(objects, coming, neededBytes - maxBytes * roomy, underWay);
  const freed = losses.reduce((sum, object) => sum + weight(object), 0);
  const share = holdsMost(room, coming) ? full : reserved;
  return neededBytes - freed <= maxBytes * share ? losses : undefined;
}

function holdsMost<T extends Held>({ objects, underWay }: Room<T>, coming: Pick<Held, 'name' | 'bytes'>): boolean {
  const holders = holdersOf(objects, coming, underWay);
  return largest(holders) === holders.find(({ project }) => project === projectOf(coming.name));
}

function holdersOf<T extends Held>(
  objects: readonly T[],
  coming: Pick<Held, 'name' | 'bytes'>,
  underWay: ReadonlyMap<string, number>,
): (Holder<T> & { readonly project: string })[] {
  const newestFirst = objects.toSorted((a, b) => b.storedMs - a.storedMs);
  const held = Map.groupBy(newestFirst, ({ name }) => projectOf(name));
  const projects = new Set([...held.keys(), ...underWay.keys(), projectOf(coming.name)]);
  return [...projects].map((project) => {
    const own = held.get(project) ?? [];
    const stored = own.reduce((sum, object) => sum + weight(object), 0);
    const arriving = (underWay.get(project) ?? 0) + (project === projectOf(coming.name) ? coming.bytes : 0);
    return { project, newestFirst: own, bytes: stored + arriving };
  });
}

/** Of several that hold the same, one that has something stored. */
function largest<H extends Holder<unknown>>(holders: readonly H[]): H | undefined {
  let most: H | undefined;
  for (const holder of holders) {
    const tie = holder.bytes === most?.bytes && most.newestFirst.length === 0;
    if (holder.bytes > (most?.bytes ?? 0) || tie) most = holder;
  }
  return most;
}

function weight({ bytes }: Held): number {
  return bytes + overheadBytes;
}

export function projectOf(name: string): string {
  return name.split('/', 1)[0] ?? '';
}
