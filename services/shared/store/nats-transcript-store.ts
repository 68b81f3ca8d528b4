import { type JetStreamManager, StorageType } from '@nats-io/jetstream';
import { Objm } from '@nats-io/obj';
import { nanos } from '@nats-io/transport-node';
import { type Broker, storeTimeoutMs } from './broker.ts';
import { repeatable } from './repeatable.ts';
import { storeUnavailable } from './store-error.ts';
import type { TranscriptReader, TranscriptStore } from './transcript-store.ts';

const bucket = 'assay_transcripts';
const stream = `OBJ_${bucket}`;
const duplicateMs = 120_000;

export interface TranscriptKeeping {
  readonly keepMs: number;
  /** Of all transcripts together. */
  readonly maxBytes: number;
  readonly replicas: number;
}

/** Transcripts in the object store `assay_transcripts`, which is made, or brought to these settings. */
export async function createNatsTranscriptStore(broker: Broker, keeping: TranscriptKeeping): Promise<TranscriptStore> {
  const settings = {
    max_age: nanos(keeping.keepMs),
    max_bytes: keeping.maxBytes,
    // The broker takes none that is longer than the age.
    duplicate_window: nanos(Math.min(keeping.keepMs, duplicateMs)),
  };
  const objects = await new Objm(broker.js).create(bucket, {
    ttl: settings.max_age,
    max_bytes: settings.max_bytes,
    storage: StorageType.File,
    replicas: keeping.replicas,
  });
  await (await broker.js.jetstreamManager(false)).streams.update(stream, settings);
  return {
    ...createNatsTranscriptReader(broker),
    async put(project, sessionId, pieces) {
      await broker.whenConnected();
      const name = nameOf(project, sessionId);
      try {
        await broker.answered(() => objects.put({ name }, ReadableStream.from(pieces), { timeout: storeTimeoutMs }));
      } catch (error) {
        throw storeUnavailable(error);
      }
    },
  };
}

/** Reads what workers store. */
export function createNatsTranscriptReader(broker: Broker): TranscriptReader {
  return {
    async get(project, sessionId) {
      await broker.whenConnected();
      try {
        const objects = await new Objm(broker.js).open(bucket, false);
        const info = await repeatable(broker, () => objects.info(nameOf(project, sessionId)));
        if (info === null || info.deleted) return undefined;
        return chunks(broker, await broker.js.jetstreamManager(false), info);
      } catch (error) {
        if ((error as Error).message === 'stream not found') return undefined;
        throw storeUnavailable(error);
      }
    },
  };
}

/**
 * The chunks of an object, one request for each: the client's own way pushes all of an object into memory, however slow
 * its reader is.
 */
async function* chunks(
  broker: Broker,
  manager: JetStreamManager,
  { nuid, size }: { nuid: string; size: number },
): AsyncGenerator<Uint8Array, void> {
  let next = 1;
  for (let read = 0; read < size; ) {
    const query = { seq: next, next_by_subj: `$O.${bucket}.C.${nuid}` };
    const message = await repeatable(broker, () => manager.streams.getMessage(stream, query)).catch((error) => {
      throw storeUnavailable(error);
    });
    if (message === null) throw storeUnavailable(new Error(`a transcript ends at ${read} of ${size} bytes`));
    next = message.seq + 1;
    read += message.data.length;
    yield message.data;
  }
}

function nameOf(project: string, sessionId: string): string {
  return `${project}/${sessionId}`;
}
