import { durationMs } from '@bufbuild/protobuf/wkt';
import { ConnectError } from '@connectrpc/connect';
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from '../../gen/google/rpc/error_details_pb.js';

/** The stable word of an error that came over the wire; the whole error where it has none. */
export function reasonOf(error: unknown): unknown {
  const [info] = ConnectError.from(error).findDetails(ErrorInfoSchema);
  return info?.reason ?? error;
}

export function metadataOf(error: unknown): Record<string, string> {
  return ConnectError.from(error).findDetails(ErrorInfoSchema)[0]?.metadata ?? {};
}

/** The delay after which the call may be tried again; undefined where the error does not advise it. */
export function retryMsOf(error: unknown): number | undefined {
  const delay = ConnectError.from(error).findDetails(RetryInfoSchema)[0]?.retryDelay;
  return delay === undefined ? undefined : durationMs(delay);
}

export function violatedFieldsOf(error: unknown): string[] {
  const violations = ConnectError.from(error).findDetails(BadRequestSchema);
  return violations.flatMap(({ fieldViolations }) => fieldViolations.map(({ field }) => field));
}
