import { Code, ConnectError } from '@connectrpc/connect';
import { isBrokenStream } from '../../shared/broken-stream.ts';

/** Whether a call could not be answered because its client went away, which is no failure of the server's. `isClosed` tells of the call's own stream. */
export function isGoneClient(error: unknown, isClosed = () => false): boolean {
  const raised = error instanceof ConnectError ? error.cause : error;
  if (!isBrokenStream(raised)) return false;
  // Of this one there is no doubt: no other stream of this service raises it.
  return (raised as { code?: unknown }).code === 'ERR_HTTP2_INVALID_STREAM' || isClosed();
}

export function goneClient(): ConnectError {
  return new ConnectError('the client went away', Code.Canceled);
}
