import { createContextKey } from '@connectrpc/connect';
import type { Peer } from '../auth/peer.ts';

const nobody: Peer = { address: '', prove() {} };
const peers = new WeakMap<object, Peer>();

/** Where a call came from. */
export const peerKey = createContextKey(nobody, { description: 'peer' });

/** Names the peer of a connection: an HTTP/2 session, or the socket of HTTP/1.1. */
export function notePeer(connection: object, peer: Peer): void {
  peers.set(connection, peer);
}

export function peerOf(connection: object | undefined): Peer {
  return (connection === undefined ? undefined : peers.get(connection)) ?? nobody;
}
