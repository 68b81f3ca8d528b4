import { brokenStream, type ExecutionLine } from '../execution/execution-stream.ts';
import { errorOfStatus, isOurFault, statusOf } from '../worker/worker-status.ts';
import type { GrpcCall } from './grpc-call.ts';

/**
 * Passes what a worker's line brings on as it comes: nothing is decoded, and a client that reads slowly slows its own line
 * down and no other. Resolves with the worker's status when all was passed on; rejects where the worker broke off.
 * When the client goes away it resolves with undefined and the line is let go.
 */
export function relay(call: GrpcCall, opened: ExecutionLine): Promise<Record<string, string> | undefined> {
  const { line, unread } = opened;
  const { stream: down } = call;
  return new Promise((resolve, reject) => {
    let queued = 0;
    let stopped = false;
    let closed = false;
    const finish = (run: () => void): void => {
      down.off('close', gone);
      stopListening();
      run();
      line.close();
    };
    /** What was queued has left this process. */
    const left = (bytes: number): void => {
      queued -= bytes;
      unread.remove(bytes);
    };
    const gone = (): void => finish(() => resolve(undefined));
    down.on('close', gone);
    const stopListening = call.onOver(gone);
    if (down.destroyed || call.over) return gone();
    // Not when the line ends: a client that has not read all by then still has it waiting here.
    down.once('close', () => {
      closed = true;
      left(queued);
    });

    function frames(bytes: Buffer, release: () => void): boolean {
      if (down.destroyed || call.over) return false;
      queued += bytes.length;
      unread.add(bytes.length);
      call.write(bytes, () => {
        release();
        if (!closed) left(bytes.length);
        if (!stopped || queued > unread.streamLimit / 2) return;
        stopped = false;
        line.resume();
      });
      stopped = queued >= unread.streamLimit;
      return !stopped;
    }

    line.read({
      begin: call.begin,
      frames,
      readLimit: () => unread.streamLimit,
      end: (trailers) =>
        finish(() => {
          const status = statusOf(trailers);
          if (status === undefined) return reject(brokenStream(opened, 'it ended without a status'));
          if (isOurFault(status)) return reject(errorOfStatus(status));
          resolve(status);
        }),
      broken: (cause) => finish(() => reject(brokenStream(opened, cause))),
    });
  });
}
