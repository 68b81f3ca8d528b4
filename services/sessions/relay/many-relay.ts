import { createGrpcFrameReader, grpcPrefix } from '../../shared/grpc-frame.ts';
import type { ManyCalls, OpenManyCalls, Speaker } from '../execution/many-calls.ts';
import { type RequestBody, requestTimeout } from '../rpc/request-body.ts';
import { type GrpcCall, toReadingError } from './grpc-call.ts';

const ok = { 'grpc-status': '0' };
/** What may wait for a client that does not read: past it no more is taken from it, and output is left to Attach. */
const queueLimitBytes = 4 * 1_048_576;

/** Serves an ExecuteMany over gRPC. Resolves with its status when the client has ended it and the last call is over, or with undefined when the client is gone. */
export function relayMany(
  call: GrpcCall,
  open: OpenManyCalls,
  speaker: Speaker,
  body: RequestBody,
): Promise<Record<string, string> | undefined> {
  const { stream } = call;
  return new Promise((resolve, reject) => {
    const frames = createGrpcFrameReader(body.limitBytes);
    const crowded = (): boolean => stream.writableLength > queueLimitBytes;
    let ended = false;
    let unfinished: NodeJS.Timeout | undefined;
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
      clearTimeout(unfinished);
      stream.off('data', take);
      body.close();
      calls.close();
      resolve(undefined);
    };
    stream.once('close', gone);
    call.onOver(gone);
    const refuse = (error: unknown): void => {
      stream.off('data', take);
      reject(toReadingError(error, body.limitBytes));
    };
    /** A message that has begun has to become whole in time. */
    const bound = (whole: boolean): void => {
      body.hold(frames.pending);
      if (frames.pending === 0 || whole) {
        clearTimeout(unfinished);
        unfinished = undefined;
      }
      if (frames.pending > 0) unfinished ??= setTimeout(() => refuse(requestTimeout(body)), body.withinMs);
    };
    const take = (chunk: Buffer): void => {
      try {
        const messages = frames.push(chunk);
        for (const message of messages) calls.take(message);
        if (frames.pending > 0 || unfinished !== undefined) bound(messages.length > 0);
      } catch (error) {
        refuse(error);
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
