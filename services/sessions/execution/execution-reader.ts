import { createGrpcFrameReader } from '../../shared/grpc-frame.ts';
import { discard } from '../worker/worker-client.ts';
import { errorOfStatus, statusOf } from '../worker/worker-status.ts';
import { brokenStream, type ExecutionStream, type WorkerStream } from './execution-stream.ts';

const messageBytes = 16 * 1_048_576;

/**
 * The messages of a worker's stream, one at a time as the reader takes them. The signal ends the reading and frees the
 * stream even while the reader never comes back; the execution goes on.
 */
export async function* readWorkerStream(opened: WorkerStream, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const { stream } = opened;
  const frames = createGrpcFrameReader(messageBytes);
  let status: Record<string, string> | undefined;
  const note = (headers: Parameters<typeof statusOf>[0]): void => {
    status = statusOf(headers) ?? status;
  };
  stream.on('response', note);
  stream.on('trailers', note);
  const free = (): void => discard(stream);
  signal.addEventListener('abort', free);
  if (signal.aborted) free();
  try {
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      for (const message of frames.push(chunk)) yield message;
    }
  } catch (error) {
    signal.throwIfAborted();
    if (status === undefined) throw brokenStream(opened, error);
  } finally {
    signal.removeEventListener('abort', free);
    free();
  }
  signal.throwIfAborted();
  if (status === undefined) throw brokenStream(opened, 'it ended early');
  const error = errorOfStatus(status);
  if (error !== undefined) throw error;
}

/** The same of an execution, whose caller is told what an error of the worker stands for. */
export async function* readExecutionStream(opened: ExecutionStream, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  try {
    yield* readWorkerStream(opened, signal);
  } catch (error) {
    throw await opened.explain(error);
  }
}
