import type { Broker } from './broker.ts';
import { type BucketName, bucketNames, endedStream, eventStream, jobStream } from './bucket-spec.ts';
import { isStreamNotFound, storeUnavailable } from './store-error.ts';

/** How much of a bucket of records is taken. A full one takes no record, not even the end of what is under way. */
export interface StoreRoom {
  readonly name: string;
  readonly bytes: number;
  /** -1: it has no limit. */
  readonly maxBytes: number;
}

/** A store without which sessions are served all the same. */
export interface SideStoreRoom extends StoreRoom {
  /** What becomes of it when it is full. */
  readonly whenFull: string;
  /** Why it cannot be used. Undefined: it answers. */
  readonly failure?: string;
}

/** Rejects with STORE_UNAVAILABLE. */
export async function storeRooms(broker: Pick<Broker, 'bucket' | 'whenConnected'>): Promise<StoreRoom[]> {
  await broker.whenConnected();
  const roomOf = async (name: BucketName): Promise<StoreRoom> => {
    const { config, state } = (await broker.bucket(name).status()).streamInfo;
    return { name, bytes: state.bytes, maxBytes: config.max_bytes };
  };
  return Promise.all(bucketNames.map(roomOf)).catch((error: unknown) => {
    throw storeUnavailable(error);
  });
}

interface SideStore {
  readonly name: string;
  readonly stream: string;
  readonly whenFull: string;
  /** Whether the first worker makes it: until then there is none. */
  readonly ofWorkers?: boolean;
}

const objects = (name: string) => ({ name, stream: `OBJ_${name}` });
const evicted = 'the oldest of the project that holds most are evicted';

const sideStores: readonly SideStore[] = [
  { ...objects('assay_samples'), whenFull: 'samples that are not in it cannot be used' },
  { ...objects('assay_submissions'), whenFull: evicted, ofWorkers: true },
  { ...objects('assay_results'), whenFull: evicted, ofWorkers: true },
  { ...objects('assay_transcripts'), whenFull: evicted, ofWorkers: true },
  { ...streamNamed(endedStream), whenFull: 'ended sessions stay in the store of live ones' },
  { ...streamNamed(jobStream), whenFull: 'the oldest jobs are dropped, and queued again later' },
  { ...streamNamed(eventStream), whenFull: 'the oldest events are dropped before their time' },
];

function streamNamed({ name }: { readonly name: string }) {
  return { name, stream: name };
}

/** Never rejects: a store that cannot be used says why. */
export function sideStoreRooms(broker: Pick<Broker, 'js'>): Promise<SideStoreRoom[]> {
  const roomOf = async ({ name, stream, whenFull, ofWorkers }: SideStore): Promise<SideStoreRoom[]> => {
    try {
      const { streams } = await broker.js.jetstreamManager(false);
      const { config, state } = await streams.info(stream);
      return [{ name, whenFull, bytes: state.bytes, maxBytes: config.max_bytes }];
    } catch (error) {
      if (ofWorkers === true && isStreamNotFound(error)) return [];
      return [{ name, whenFull, bytes: 0, maxBytes: -1, failure: (error as Error).message }];
    }
  };
  return Promise.all(sideStores.map(roomOf)).then((rooms) => rooms.flat());
}
