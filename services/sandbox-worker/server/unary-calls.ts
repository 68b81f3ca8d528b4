import type { ServerHttp2Stream } from 'node:http2';
import {
  create,
  type DescMessage,
  type DescMethod,
  type DescService,
  fromBinary,
  type MessageInitShape,
  toBinary,
} from '@bufbuild/protobuf';
import type { HandlerContext } from '@connectrpc/connect';
import { createGrpcFrameReader, grpcFrame } from '../../shared/grpc-frame.ts';
import type { Logger } from '../../shared/log.ts';
import type { WorkShares } from '../../shared/work-shares.ts';
import { refuse } from './event-stream.ts';

const requestLimit = 4 * 1_048_576;
const headers = { ':status': 200, 'content-type': 'application/grpc+proto' };
const trailers = { 'grpc-status': '0' };

/** What a handler may ask of its call. */
type Context = Pick<HandlerContext, 'signal'>;
type Answer = MessageInitShape<DescMessage>;
type Handler = (request: unknown, context: Context) => Answer | Promise<Answer>;

/** Where requests say whose they are. */
interface Named {
  readonly project?: string;
  readonly record?: { readonly project: string };
  readonly sessionId?: string;
}

/** A service, and handlers for all of its calls with one answer that are served here. */
export type ServedCalls = readonly [service: DescService, handlers: object];

/**
 * The calls with one request and one answer, framed by hand: they lie on the way of every warm session and of every
 * input. Returns whether the stream was one of them.
 */
export function createUnaryCalls(
  served: readonly ServedCalls[],
  projectOf: (sessionId: string) => string,
  shares: WorkShares,
  log: Logger,
): (stream: ServerHttp2Stream, path: string) => boolean {
  const calls = new Map<string, { method: DescMethod; handle: Handler }>();
  for (const [service, handlers] of served) {
    for (const method of service.methods) {
      const handle = (handlers as Record<string, unknown>)[method.localName];
      if (method.methodKind !== 'unary' || typeof handle !== 'function') continue;
      calls.set(`/${service.typeName}/${method.name}`, { method, handle: handle as Handler });
    }
  }

  /** The handler, in the turns of the project that a request names, or whose session it is about. */
  function inTurn(handle: Handler): Handler {
    return (given, context) => {
      const { project, record, sessionId } = given as Named;
      const owner = project ?? record?.project ?? projectOf(sessionId ?? '');
      const turn = shares.turn(owner);
      return turn === undefined ? handle(given, context) : turn.then(() => handle(given, context));
    };
  }

  return (stream, path) => {
    const call = calls.get(path);
    if (call === undefined) return false;
    const reader = createGrpcFrameReader(requestLimit);
    let begun = false;
    stream.on('data', (chunk: Buffer) => {
      try {
        const message = reader.push(chunk)[0];
        if (message === undefined || begun) return;
        begun = true;
        answer(stream, call.method, inTurn(call.handle), message).catch((error) => refuse(stream, error, log));
      } catch (error) {
        refuse(stream, error, log);
      }
    });
    return true;
  };
}

async function answer(stream: ServerHttp2Stream, method: DescMethod, handle: Handler, message: Buffer): Promise<void> {
  const response = await handle(fromBinary(method.input, message), contextOf(stream));
  const bytes = toBinary(method.output, create(method.output, response));
  // Who asked is gone; what was done stays done.
  if (stream.destroyed) return;
  stream.respond(headers, { waitForTrailers: true });
  stream.on('wantTrailers', () => !stream.destroyed && stream.sendTrailers(trailers));
  stream.end(grpcFrame(bytes));
}

const gone = new Error('the caller has gone');

/** The signal costs more than most calls do: it is made for those that ask for it. */
function contextOf(stream: ServerHttp2Stream): Context {
  let ending: AbortController | undefined;
  return {
    get signal() {
      if (ending !== undefined) return ending.signal;
      const made = new AbortController();
      ending = made;
      if (stream.destroyed) made.abort(gone);
      else stream.once('close', () => made.abort(gone));
      return made.signal;
    },
  };
}
