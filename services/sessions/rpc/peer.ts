import { createContextKey } from '@connectrpc/connect';

/** The address that a call came from. */
export const peerKey = createContextKey('', { description: 'peer address' });
