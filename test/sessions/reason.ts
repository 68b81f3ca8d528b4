import { ConnectError } from '@connectrpc/connect';
import { ErrorInfoSchema } from '../../gen/google/rpc/error_details_pb.js';

/** The stable word of an error that came over the wire; the whole error where it has none. */
export function reasonOf(error: unknown): unknown {
  const [info] = ConnectError.from(error).findDetails(ErrorInfoSchema);
  return info?.reason ?? error;
}

export function metadataOf(error: unknown): Record<string, string> {
  return ConnectError.from(error).findDetails(ErrorInfoSchema)[0]?.metadata ?? {};
}
