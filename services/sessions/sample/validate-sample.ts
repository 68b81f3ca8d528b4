import { create, fromBinary } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import type { WorkerRecord } from '../../../gen/assay/internal/v1/records_pb.js';
import { ValidateSampleContentResponseSchema, WorkerService } from '../../../gen/assay/internal/v1/worker_pb.js';
import { SampleValidationSchema, type ValidateSampleResponse } from '../../../gen/assay/v1/sample_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { SampleFolder } from '../../shared/sample/read-sample.ts';
import type { ValidationStore } from '../../shared/store/validation-store.ts';
import { readWorkerStream } from '../execution/execution-reader.ts';
import type { WorkerClient } from '../worker/worker-client.ts';
import type { WorkerDirectory } from '../worker/worker-directory.ts';
import type { SampleShelf } from './sample-shelf.ts';

export interface SampleValidatorDeps {
  readonly workers: WorkerDirectory;
  readonly client: WorkerClient;
  readonly shelf: SampleShelf;
  readonly validations: ValidationStore;
  readonly nowMs: () => number;
}

/** The one with most room for sessions; that it is full of them does not keep it from grading. */
function graderOf(workers: WorkerDirectory): WorkerRecord {
  const grading = workers.all().filter(({ record, reachable }) => {
    return reachable && !record.draining && record.capabilities.includes('verification');
  });
  const [freest] = grading.map(({ record }) => record).sort((a, b) => roomOf(b) - roomOf(a));
  if (freest !== undefined) return freest;
  throw new DomainError('NO_WORKER', 'no worker is there to grade; start one with the capability verification');
}

function roomOf({ capacity, sessions }: WorkerRecord): number {
  return capacity - sessions;
}

type News = ValidateSampleResponse['news'];

/** Has a worker put a sample to the test, and keeps the outcome. The signal ends it. */
export type SampleValidator = (
  folder: SampleFolder,
  project: string,
  repetitions: number,
  signal: AbortSignal,
) => AsyncGenerator<News, void>;

export function createSampleValidator(deps: SampleValidatorDeps): SampleValidator {
  const { workers, client, shelf, validations, nowMs } = deps;
  return async function* (folder, project, repetitions, signal) {
    const { address, workerId } = graderOf(workers);
    const contentDigest = folder.digests.content;
    await shelf.provide(folder);
    const request = { contentDigest, project, repetitionCount: repetitions };
    const stream = await client.openStream(address, WorkerService.method.validateSampleContent, request);
    for await (const message of readWorkerStream({ stream, address, sessionId: '', executionId: '' }, signal)) {
      const { news } = fromBinary(ValidateSampleContentResponseSchema, message);
      if (news.case === 'outcome') {
        const time = timestampFromMs(nowMs());
        const outcome = { ...create(SampleValidationSchema, news.value), workerId, contentDigest, time };
        await validations.put(outcome);
        yield { case: 'outcome', value: outcome };
      } else if (news.case === 'progress') yield { case: 'progress', value: { ...news.value, workerId } };
      else if (news.case === 'grading') yield news;
    }
  };
}
