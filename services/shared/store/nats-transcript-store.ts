import type { Broker } from './broker.ts';
import { createFairObjectBucket } from './fair-object-bucket.ts';
import { type BucketKeeping, createNatsObjectReader } from './nats-object-bucket.ts';
import type { TranscriptReader, TranscriptStore } from './transcript-store.ts';

const bucket = 'assay_transcripts';

/** Transcripts in the object store `assay_transcripts`. */
export async function createNatsTranscriptStore(broker: Broker, keeping: BucketKeeping): Promise<TranscriptStore> {
  const objects = await createFairObjectBucket(broker, bucket, keeping);
  return {
    ...createNatsTranscriptReader(broker),
    put: (project, sessionId, pieces, bytes) => objects.put(nameOf(project, sessionId), pieces, bytes),
  };
}

/** Reads what workers store. */
export function createNatsTranscriptReader(broker: Broker): TranscriptReader {
  const objects = createNatsObjectReader(broker, bucket);
  return { get: (project, sessionId) => objects.get(nameOf(project, sessionId)) };
}

function nameOf(project: string, sessionId: string): string {
  return `${project}/${sessionId}`;
}
