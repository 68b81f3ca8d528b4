import { fromBinary } from '@bufbuild/protobuf';
import type { WorkerRecord } from '../../../gen/assay/internal/v1/records_pb.js';
import { BuildSampleImageResponseSchema, WorkerService } from '../../../gen/assay/internal/v1/worker_pb.js';
import type { BuildSampleResponse } from '../../../gen/assay/v1/sample_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { SampleFolder } from '../../shared/sample/read-sample.ts';
import { readWorkerStream } from '../execution/execution-reader.ts';
import type { WorkerClient } from '../worker/worker-client.ts';
import { takesSessions, type WorkerDirectory } from '../worker/worker-directory.ts';
import { type Channel, createChannel } from './channel.ts';
import type { SampleShelf } from './sample-shelf.ts';

export interface SampleBuilderDeps {
  readonly workers: WorkerDirectory;
  readonly client: WorkerClient;
  readonly shelf: SampleShelf;
}

type News = BuildSampleResponse['news'];

/** Has a sample's image made by every worker that takes sessions. The signal ends the wait, and a build that nobody else waits for. */
export type SampleBuilder = (folder: SampleFolder, project: string, signal: AbortSignal) => AsyncGenerator<News, void>;

export function createSampleBuilder({ workers, client, shelf }: SampleBuilderDeps): SampleBuilder {
  const build = async (
    { address, workerId }: WorkerRecord,
    request: { readonly contentDigest: string; readonly project: string },
    channel: Channel<News>,
    signal: AbortSignal,
  ): Promise<void> => {
    const stream = await client.openStream(address, WorkerService.method.buildSampleImage, request);
    for await (const message of readWorkerStream({ stream, address, sessionId: '', executionId: '' }, signal)) {
      const { news } = fromBinary(BuildSampleImageResponseSchema, message);
      if (news.value !== undefined) await channel.send({ ...news, value: { ...news.value, workerId } } as News);
    }
  };
  return async function* (folder, project, signal) {
    const taking = workers.all().filter(({ record, reachable }) => reachable && takesSessions(record));
    if (taking.length === 0) throw new DomainError('NO_WORKER', 'no worker is there to build an image; start one');
    await shelf.provide(folder);
    const channel = createChannel<News>();
    const leaving = new AbortController();
    const either = AbortSignal.any([signal, leaving.signal]);
    const request = { contentDigest: folder.digests.content, project };
    const builds = taking.map(({ record }) => build(record, request, channel, either));
    Promise.all(builds).then(
      () => channel.close(),
      (error: unknown) => channel.close(error),
    );
    try {
      yield* channel;
    } finally {
      // One that failed is the end of all: the others are not waited for.
      leaving.abort();
      await Promise.allSettled(builds);
    }
  };
}
