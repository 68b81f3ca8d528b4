import { countPassed } from '../../shared/young-collection.ts';
import { brokenStream, type ExecutionStream } from '../execution/execution-stream.ts';
import { discard } from '../worker/worker-client.ts';
import { errorOfStatus, isOurFault, statusOf } from '../worker/worker-status.ts';
import type { GrpcCall } from './grpc-call.ts';

/** What may wait for a client before the worker's stream is stopped. */
const queueBytes = 262_144;

/**
 * Passes a worker's response on as it comes: nothing is decoded, and a client that reads slowly slows its own stream
 * down and no other. Resolves with the worker's status when all was passed on; rejects where the worker broke off.
 * When the client goes away it resolves with undefined and the worker's stream is let go.
 */
export function relay(call: GrpcCall, opened: ExecutionStream): Promise<Record<string, string> | undefined> {
  const { stream: up } = opened;
  const { stream: down } = call;
  return new Promise((resolve, reject) => {
    let status: Record<string, string> | undefined;
    const finish = (run: () => void): void => {
      down.off('drain', resume);
      down.off('close', gone);
      stopListening();
      run();
      discard(up);
    };
    const resume = (): void => void up.resume();
    const gone = (): void => finish(() => resolve(undefined));
    down.on('drain', resume);
    down.on('close', gone);
    const stopListening = call.onOver(gone);
    up.on('response', (headers) => {
      if (headers[':status'] !== 200) {
        return finish(() => reject(brokenStream(opened, `it answered with the status ${headers[':status']}`)));
      }
      status = statusOf(headers);
      if (status === undefined) call.begin();
    });
    up.on('trailers', (trailers) => {
      status = statusOf(trailers);
    });
    up.on('data', (chunk: Buffer) => {
      if (down.destroyed || call.over) return;
      const room = down.write(chunk);
      countPassed(chunk.length);
      // Frames come in small pieces: stopping at each would cost more than the memory it saves.
      if (!room && down.writableLength > queueBytes) up.pause();
    });
    let failure: unknown = 'it ended early';
    up.on('error', (error) => {
      failure = error;
    });
    // All was said: what is left is the stream's own farewell.
    up.on('end', () => {
      if (status !== undefined && !isOurFault(status)) resolve(status);
    });
    up.on('close', () =>
      finish(() => {
        if (status === undefined) return reject(brokenStream(opened, failure));
        if (isOurFault(status)) return reject(errorOfStatus(status));
        resolve(status);
      }),
    );
    if (down.destroyed || call.over) gone();
  });
}
