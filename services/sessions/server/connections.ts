import type { ServerHttp2Session } from 'node:http2';
import type { Socket } from 'node:net';
import type { Limits } from '../config.ts';
import { type Connection, createConnectionTable } from './connection-table.ts';

/** The sockets of the public port, and the place of each in the table of connections. */
export interface Connections {
  /** Takes in a socket that was just accepted. */
  open(socket: Socket): void;
  ofSocket(socket: Socket): Connection;
  ofSession(session: ServerHttp2Session): Connection;
  close(): void;
}

/** A socket that was reset by now has no peer any more, and ends by itself. */
const nobody: Connection = {
  ...{ address: '', refusal: undefined, prove() {}, closeBy() {}, onProven() {}, gone() {} },
  begin: () => () => {},
};

export function createConnections(limits: Limits): Connections {
  const table = createConnectionTable(limits);
  /** By address and port of the peer: an HTTP/2 session shows its socket only through a proxy of node's. */
  const open = new Map<string, Connection>();

  function known(socket: Pick<Socket, 'remoteAddress' | 'remotePort'>): Connection {
    return open.get(nameOf(socket)) ?? nobody;
  }

  return {
    open(socket) {
      const name = nameOf(socket);
      const connection = table.open(socket.remoteAddress ?? '', () => socket.destroy());
      open.set(name, connection);
      socket.once('close', () => {
        connection.gone();
        if (open.get(name) === connection) open.delete(name);
      });
    },
    ofSocket: known,
    ofSession: (session) => known(session.socket),
    close: table.close,
  };
}

function nameOf({ remoteAddress, remotePort }: Pick<Socket, 'remoteAddress' | 'remotePort'>): string {
  return `${remoteAddress} ${remotePort}`;
}
