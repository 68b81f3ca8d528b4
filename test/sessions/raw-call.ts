import { once } from 'node:events';
import { type ClientHttp2Session, type ClientHttp2Stream, connect, type IncomingHttpHeaders } from 'node:http2';
import { connect as connectSocket, type Socket } from 'node:net';
import type { Protocol } from './running-service.ts';

/** A connection of HTTP/2 without a client library, for calls that no library would make. */
export async function openHttp2(port: number): Promise<ClientHttp2Session> {
  const session = connect(`http://127.0.0.1:${port}`, { maxSessionMemory: 2_000 });
  session.on('error', () => {});
  await once(session, 'connect');
  return session;
}

export interface RawCall {
  readonly stream: ClientHttp2Stream;
  /** The head of the answer. */
  readonly answered: Promise<IncomingHttpHeaders>;
  /** All that the answer says, headers, body and trailers, once the stream is closed. */
  readonly told: Promise<string>;
  readonly closed: Promise<void>;
}

const contentTypes: Record<Protocol, string> = {
  grpc: 'application/grpc+proto',
  connect: 'application/proto',
  'grpc-web': 'application/grpc-web+proto',
};

/** Opens a call and leaves its request open. */
export function openRawCall(
  session: ClientHttp2Session,
  method: string,
  { key, protocol, headers = {} }: { key?: string | undefined; protocol: Protocol; headers?: Record<string, string> },
): RawCall {
  const stream = session.request({
    ':method': 'POST',
    ':path': `/${method}`,
    'content-type': contentTypes[protocol],
    ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
    ...headers,
  });
  stream.on('error', () => {});
  let said = '';
  const note = (found: IncomingHttpHeaders): void => {
    said += JSON.stringify(found);
  };
  stream.on('trailers', note);
  stream.setEncoding('latin1').on('data', (text: string) => {
    said += text;
  });
  const answered = once(stream, 'response').then(([found]) => {
    note(found);
    return found as IncomingHttpHeaders;
  });
  answered.catch(() => {});
  const closed = new Promise<void>((resolve) => stream.once('close', () => resolve()));
  return { stream, answered, told: closed.then(() => decodeURIComponent(said.replaceAll('%"', '"'))), closed };
}

/** A connection of HTTP/1.1, and all that came back on it once it is closed. */
export async function openHttp1(port: number): Promise<{ socket: Socket; closed: Promise<string> }> {
  const socket = connectSocket(port, '127.0.0.1');
  let said = '';
  socket.setEncoding('latin1').on('data', (text: string) => {
    said += text;
  });
  socket.on('error', () => {});
  const closed = new Promise<string>((resolve) => socket.once('close', () => resolve(said)));
  await once(socket, 'connect');
  return { socket, closed };
}
