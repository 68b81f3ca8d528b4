import { fromBinary, toBinary } from '@bufbuild/protobuf';
import {
  type ExecuteManyRequest,
  ExecuteManyRequestSchema,
  type ExecuteManyResponse,
  ExecuteManyResponseSchema,
} from '../../../gen/assay/v1/execution_pb.js';
import type { OpenManyCalls, Speaker } from './many-calls.ts';

const queueLimitBytes = 4 * 1_048_576;

/** Serves an ExecuteMany that came by the framework, in whatever protocol. */
export async function* readMany(
  requests: AsyncIterable<ExecuteManyRequest>,
  open: OpenManyCalls,
  speaker: Speaker,
  signal: AbortSignal,
): AsyncGenerator<ExecuteManyResponse> {
  let queue: Buffer[] = [];
  let queuedBytes = 0;
  let ended = false;
  let failure: unknown;
  let wake = (): void => {};
  let taken = (): void => {};
  const calls = open(speaker, {
    send(messages) {
      for (const message of messages) queuedBytes += message.length;
      queue.push(...messages);
      wake();
    },
    get crowded() {
      return queuedBytes > queueLimitBytes;
    },
    idle: () => wake(),
  });
  const takeAll = async (): Promise<void> => {
    for await (const request of requests) {
      calls.take(toBinary(ExecuteManyRequestSchema, request));
      while (queuedBytes > queueLimitBytes && !signal.aborted) {
        await new Promise<void>((resolve) => {
          taken = resolve;
        });
      }
    }
  };
  const close = (): void => {
    calls.close();
    taken();
  };
  // A reader that vanishes may leave this generator parked for ever.
  const abort = (): void => {
    close();
    failure ??= signal.reason;
    wake();
  };
  signal.addEventListener('abort', abort, { once: true });
  takeAll()
    .catch((error) => {
      failure = error;
    })
    .finally(() => {
      ended = true;
      wake();
    });
  try {
    while (failure === undefined && !(ended && calls.size === 0 && queue.length === 0)) {
      if (queue.length === 0) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
      const messages = queue;
      [queue, queuedBytes] = [[], 0];
      taken();
      for (const message of messages) yield fromBinary(ExecuteManyResponseSchema, message);
    }
    if (failure !== undefined) throw failure;
  } finally {
    signal.removeEventListener('abort', abort);
    close();
  }
}
