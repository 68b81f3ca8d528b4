import { type ClientHttp2Session, type ClientHttp2Stream, constants } from 'node:http2';
import {
  create as createMessage,
  type DescMessage,
  type DescMethod,
  type DescMethodServerStreaming,
  type DescMethodUnary,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf';
import { DomainError } from '../../shared/domain-error.ts';
import { createGrpcFrameReader, grpcFrame } from '../../shared/grpc-frame.ts';
import { isRefused, type StreamWindow, type WorkerLinks, workerUnreachable } from './worker-link.ts';
import { errorOfStatus, statusOf } from './worker-status.ts';

/** Calls to workers: gRPC, framed by hand on the kept connections. */
export interface WorkerClient {
  /** Resolves once there is a connection to the worker that takes streams. Rejects with WORKER_UNREACHABLE. */
  reach(address: string): Promise<unknown>;
  /** Rejects with what the worker said, with WORKER_UNREACHABLE, with DEADLINE_EXCEEDED or with the signal's reason. */
  call<I extends DescMessage, O extends DescMessage>(
    address: string,
    method: DescMethodUnary<I, O>,
    message: MessageInitShape<I>,
    options: CallOptions,
  ): Promise<MessageShape<O>>;
  /** Opens a stream and sends its one request; the response is the caller's to read. */
  openStream<I extends DescMessage, O extends DescMessage>(
    address: string,
    method: DescMethodServerStreaming<I, O>,
    message: MessageInitShape<I>,
    options?: StreamOptions,
  ): Promise<ClientHttp2Stream>;
}

export interface StreamOptions {
  /** Whose client reads it, or does not. */
  readonly project?: string;
  readonly traceparent?: string | undefined;
}

export interface CallOptions {
  readonly timeoutMs: number;
  /** A worker that has not answered within this time is pinged; one that does not answer that either is unreachable. */
  readonly pingAfterMs?: number;
  readonly signal?: AbortSignal;
  /** Asked for before a long answer is decoded. */
  readonly turn?: (bytes: number) => Promise<void> | undefined;
}

/** Streams of one project with a wide window: what clients do not read waits here, up to the window of each stream. */
const wideStreams = 32;
const pingTimeoutMs = 2_000;
/** How long a probe waits for an answer. */
const answerTimeoutMs = 5_000;

const responseBytes = 16 * 1_048_576;
/** Decoding such an answer, and encoding it again, takes a good part of a millisecond. */
const longAnswerBytes = 4_096;

interface Opening {
  readonly timeoutMs?: number;
  readonly traceparent?: string | undefined;
  readonly window?: StreamWindow;
}

export function createWorkerClient(links: WorkerLinks, token: string): WorkerClient {
  /** Open streams by project. */
  const streams = new Map<string, number>();
  const count = (project: string, change: 1 | -1): number => {
    const now = (streams.get(project) ?? 0) + change;
    if (now === 0) streams.delete(project);
    else streams.set(project, now);
    return now;
  };
  const open = async <I extends DescMessage>(
    address: string,
    method: DescMethod & { readonly input: I },
    message: MessageInitShape<I>,
    { timeoutMs, traceparent, window }: Opening,
  ): Promise<ClientHttp2Stream> => {
    const session = await links.open(address, window);
    const bytes = toBinary(method.input, createMessage(method.input, message));
    try {
      const stream = session.request({
        ':method': 'POST',
        ':path': `/${method.parent.typeName}/${method.name}`,
        'content-type': 'application/grpc+proto',
        te: 'trailers',
        authorization: `Bearer ${token}`,
        ...(timeoutMs === undefined ? {} : { 'grpc-timeout': `${Math.min(timeoutMs, 99_999_999)}m` }),
        ...(traceparent === undefined ? {} : { traceparent }),
      });
      // Whoever reads the stream listens too; until then a failure must not end the process.
      stream.on('error', () => {});
      links.watch(session, stream);
      stream.end(grpcFrame(bytes));
      return stream;
    } catch (error) {
      throw workerUnreachable(address, error);
    }
  };
  return {
    async reach(address) {
      const session = await links.open(address);
      const taken = await takesStreams(links, session, token).catch((error) => {
        throw workerUnreachable(address, error);
      });
      if (!taken) throw workerUnreachable(address, 'it refuses streams');
    },
    async openStream(address, method, message, { project, traceparent } = {}) {
      if (project === undefined) return open(address, method, message, { traceparent });
      const window = count(project, 1) > wideStreams ? 'narrow' : 'wide';
      try {
        const stream = await open(address, method, message, { traceparent, window });
        return stream.once('close', () => count(project, -1));
      } catch (error) {
        count(project, -1);
        throw error;
      }
    },
    async call(address, method, message, options) {
      options.signal?.throwIfAborted();
      const stream = await open(address, method, message, { timeoutMs: options.timeoutMs });
      const body = await readUnary(stream, address, method.name, options);
      if (body.length > longAnswerBytes) await options.turn?.(body.length);
      return fromBinary(method.output, body);
    },
  };
}

/** Asks for nothing: any answer will do. A worker that is only slow is left to the pings of its link. */
function takesStreams(links: WorkerLinks, session: ClientHttp2Session, token: string): Promise<boolean> {
  return new Promise((resolve) => {
    const headers = { ':method': 'POST', ':path': '/', authorization: `Bearer ${token}` };
    const stream = session.request(headers, { endStream: true });
    stream.setTimeout(answerTimeoutMs, () => stream.close(constants.NGHTTP2_CANCEL));
    stream.on('error', () => {});
    stream.resume();
    links.watch(session, stream);
    stream.once('close', () => resolve(!isRefused(stream)));
  });
}

/** Ends a stream whose rest nobody wants, without waiting for what is still buffered. */
export function discard(stream: ClientHttp2Stream): void {
  // One that was read to its end closes by itself.
  if (stream.destroyed || stream.readableEnded) return;
  stream.close(constants.NGHTTP2_CANCEL);
  stream.destroy();
}

function readUnary(
  stream: ClientHttp2Stream,
  address: string,
  name: string,
  { timeoutMs, pingAfterMs, signal }: CallOptions,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const frames = createGrpcFrameReader(responseBytes);
    let message: Buffer | undefined;
    let status: Record<string, string> | undefined;
    const stopPinging = pingAfterMs === undefined ? undefined : pingUnlessAnswered(stream, pingAfterMs);
    const settle = (run: () => void): void => {
      clearTimeout(timer);
      stopPinging?.();
      signal?.removeEventListener('abort', abort);
      run();
      discard(stream);
    };
    const abort = (): void => settle(() => reject(signal?.reason));
    const timer = setTimeout(() => {
      const text = `the worker did not answer ${name} within ${timeoutMs} ms; ask again for what became of it`;
      settle(() => reject(new DomainError('DEADLINE_EXCEEDED', text)));
    }, timeoutMs);
    signal?.addEventListener('abort', abort);
    stream.on('response', (headers) => {
      status = statusOf(headers);
    });
    stream.on('trailers', (headers) => {
      status = statusOf(headers);
    });
    stream.on('data', (chunk: Buffer) => {
      try {
        message = frames.push(chunk)[0] ?? message;
        if (message === undefined) return;
        // A worker that answers has done what it was asked; what comes after the message is only the stream's farewell. It
        // is waited for: a server that sees many streams reset hangs up.
        signal?.removeEventListener('abort', abort);
        stopPinging?.();
        resolve(message);
      } catch (error) {
        settle(() => reject(workerUnreachable(address, error)));
      }
    });
    stream.on('error', (error) => settle(() => reject(workerUnreachable(address, error))));
    stream.on('close', () =>
      settle(() => {
        if (status === undefined) return reject(workerUnreachable(address, 'the connection broke'));
        const error = errorOfStatus(status);
        if (error !== undefined) return reject(error);
        reject(workerUnreachable(address, 'the answer held no message'));
      }),
    );
  });
}

/** Breaks the stream of a worker that answers neither the call nor a ping. Returns how to stop. */
function pingUnlessAnswered(stream: ClientHttp2Stream, afterMs: number): () => void {
  let timer = setTimeout(() => {
    timer = setTimeout(() => stream.destroy(new Error('a ping was not answered')), pingTimeoutMs);
    stream.session?.ping(() => clearTimeout(timer));
  }, afterMs);
  return () => clearTimeout(timer);
}
