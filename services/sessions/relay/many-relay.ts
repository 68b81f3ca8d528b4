import { createGrpcFrameReader, grpcPrefix } from '../../shared/grpc-frame.ts';
import type { ManyCalls, OpenManyCalls, Speaker } from '../execution/many-calls.ts';
import { type GrpcCall, toReadingError } from './grpc-call.ts';

const ok = { 'grpc-status': '0' };
/** What may wait for a client that does not read: past it no more is taken from it, and output is left to Attach. */
const queueLimitBytes = 4 * 1_048_576;

/** Serves an ExecuteMany over gRPC. Resolves with its status when the client has ended it and the last call is over, or with undefined when the client is gone. */
export function relayMany(
  call: GrpcCall,
  open: OpenManyCalls,
  speaker: Speaker,
  messageBytes: number,
): Promise<Record<string, string> | undefined> {
  const { stream } = call;
  return new Promise((resolve, reject) => {
    const frames = createGrpcFrameReader(messageBytes);
    const crowded = (): boolean => stream.writableLength > queueLimitBytes;
    let ended = false;
    const calls: ManyCalls = open(speaker, {
      send(messages) {
        if (call.over || stream.destroyed) return;
        call.write(Buffer.concat(messages.flatMap((message) => [grpcPrefix(message.length), message])));
      },
      get crowded() {
        return crowded();
      },
      idle() {
        if (ended) resolve(ok);
      },
    });
    const gone = (): void => {
      calls.close();
      resolve(undefined);
    };
    stream.once('close', gone);
    call.onOver(gone);
    const take = (chunk: Buffer): void => {
      try {
        for (const message of frames.push(chunk)) calls.take(message);
      } catch (error) {
        stream.off('data', take);
        reject(toReadingError(error, messageBytes));
      }
      if (!crowded()) return;
      stream.pause();
      stream.once('drain', () => stream.resume());
    };
    stream.on('data', take);
    stream.once('end', () => {
      ended = true;
      if (calls.size === 0) resolve(ok);
    });
    if (stream.destroyed || call.over) gone();
    else call.begin();
  });
}
