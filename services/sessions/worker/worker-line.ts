import type { ClientHttp2Session } from 'node:http2';
import { connect, type Socket } from 'node:net';
import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { AttachRequestSchema, ExecutionService } from '../../../gen/assay/v1/execution_pb.js';
import { grpcFrame, methodPath } from '../../shared/grpc-frame.ts';
import { resumedHeader } from '../../shared/resumed-header.ts';
import { createLineReader } from './line-reader.ts';
import { createReadBuffers } from './read-buffers.ts';
import type { WorkerLinks } from './worker-link.ts';

/**
 * An Attach on a connection of its own, as gRPC-Web over HTTP/1.1: what it brings is read into the same memory again and
 * again, where an HTTP/2 stream leaves garbage for every piece, and collecting that costs more than passing it on.
 */
export interface WorkerLine {
  /** Begins to read. */
  read(reader: LineEvents): void;
  /** Goes on after a reader that wanted no more. */
  resume(): void;
  close(): void;
}

export interface LineEvents {
  /** The worker has accepted. */
  begin(): void;
  /**
   * gRPC frames, not decoded. Who is done with the bytes calls `release`: they are overwritten then. Returns whether more
   * is wanted now.
   */
  frames(bytes: Buffer, release: () => void): boolean;
  /** What one read may bring at most; asked before each. */
  readLimit(): number;
  /** The worker's trailers. Nothing comes after them. */
  end(trailers: Record<string, string>): void;
  broken(cause: unknown): void;
}

/** Opens lines. Rejects with WORKER_UNREACHABLE. */
export type OpenLine = (
  address: string,
  request: MessageInitShape<typeof AttachRequestSchema>,
  options?: { readonly resumed?: boolean },
) => Promise<WorkerLine>;

/** How long a worker may take to accept a line and to answer. */
const usualAnswerMs = 10_000;
const aliveMs = 30_000;

export function createWorkerLines(
  links: Pick<WorkerLinks, 'open' | 'isRetired'>,
  token: string,
  answerMs = usualAnswerMs,
): OpenLine {
  const lines = new WeakMap<ClientHttp2Session, Set<Socket>>();

  /** The link is asked now and then whether its worker still lives; a line ends with it, or with the link that takes its place. */
  function linesOf(address: string, link: ClientHttp2Session): Set<Socket> {
    const known = lines.get(link);
    if (known !== undefined) return known;
    const sockets = new Set<Socket>();
    lines.set(link, sockets);
    const end = (): void => {
      for (const socket of sockets) socket.destroy(new Error("the worker's connection is gone"));
    };
    link.once('close', () => {
      if (sockets.size === 0 || !links.isRetired(link)) return end();
      links.open(address).then((next) => {
        for (const socket of sockets) moveTo(linesOf(address, next), socket);
      }, end);
    });
    return sockets;
  }

  return async (address, request, { resumed = false } = {}) => {
    const sockets = linesOf(address, await links.open(address));
    const message = grpcFrame(toBinary(AttachRequestSchema, create(AttachRequestSchema, request)));
    let readLimit = (): number => Number.POSITIVE_INFINITY;
    const buffers = createReadBuffers(() => readLimit());
    let take = (_bytes: Buffer, _release: () => void): boolean => false;
    const colon = address.lastIndexOf(':');
    const socket: Socket = connect({
      host: address.slice(0, colon).replace(/^\[|\]$/g, ''),
      port: Number(address.slice(colon + 1)),
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: aliveMs,
      onread: { buffer: buffers.next, callback: (bytes) => take(...buffers.filled(bytes)) },
    });
    sockets.add(socket);
    const late = setTimeout(() => socket.destroy(new Error(`no answer in ${answerMs} ms`)), answerMs);
    // Whoever reads listens too; until then a failure must not end the process.
    socket.on('error', () => {});
    socket.once('close', () => {
      clearTimeout(late);
      sockets.delete(socket);
      buffers.close();
    });
    socket.pause();
    socket.write(Buffer.concat([requestHead(address, token, resumed, message.length), message]));
    return {
      read(reader) {
        readLimit = reader.readLimit;
        let failure: unknown = 'it ended early';
        let over = false;
        const finish = (run: () => void): void => {
          if (over) return;
          over = true;
          run();
          socket.destroy();
        };
        const lines = createLineReader({
          begin() {
            clearTimeout(late);
            reader.begin();
          },
          frames: reader.frames,
          end: (trailers) => finish(() => reader.end(trailers)),
        });
        take = (bytes, release) => {
          try {
            return !over && lines.push(bytes, release) && !over;
          } catch (error) {
            finish(() => reader.broken(error));
            return false;
          }
        };
        socket.on('error', (error) => {
          failure = error;
        });
        socket.once('close', () => finish(() => reader.broken(failure)));
        if (socket.destroyed) finish(() => reader.broken(failure));
        else socket.resume();
      },
      resume: () => void socket.resume(),
      close: () => void socket.destroy(),
    };
  };
}

function moveTo(sockets: Set<Socket>, socket: Socket): void {
  if (socket.destroyed) return;
  sockets.add(socket);
  socket.once('close', () => sockets.delete(socket));
}

function requestHead(address: string, token: string, resumed: boolean, messageBytes: number): Buffer {
  const lines = [
    `POST ${methodPath(ExecutionService.method.attach)} HTTP/1.1`,
    `host: ${address}`,
    `authorization: Bearer ${token}`,
    'content-type: application/grpc-web+proto',
    `content-length: ${messageBytes}`,
    'connection: close',
    ...(resumed ? [`${resumedHeader}: 1`] : []),
  ];
  return Buffer.from(`${lines.join('\r\n')}\r\n\r\n`);
}
