import type { IncomingHttpHeaders } from 'node:http2';
import { fromBinary } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import { ErrorInfoSchema } from '../../../gen/google/rpc/error_details_pb.js';
import { StatusSchema } from '../../../gen/google/rpc/status_pb.js';
import { DomainError, isReason } from '../../shared/domain-error.ts';

/** The headers or trailers that end a gRPC response, as far as clients get to see them. */
export function statusOf(headers: IncomingHttpHeaders): Record<string, string> | undefined {
  const status = headers['grpc-status'];
  if (typeof status !== 'string') return undefined;
  const found: Record<string, string> = { 'grpc-status': status };
  for (const name of ['grpc-message', 'grpc-status-details-bin']) {
    const value = headers[name];
    if (typeof value === 'string') found[name] = value;
  }
  return found;
}

/** A worker that does not take our token is our trouble, not the caller's: it must not read as a bad API key. */
export function isOurFault(status: Record<string, string>): boolean {
  const code = Number(status['grpc-status']);
  return code === Code.Unauthenticated || code === Code.PermissionDenied;
}

/** The error that a worker's status stands for. Undefined: it is OK. */
export function errorOfStatus(status: Record<string, string>): DomainError | ConnectError | undefined {
  const code = Number(status['grpc-status']);
  if (code === 0) return undefined;
  const message = decodeMessage(status['grpc-message'] ?? '');
  if (isOurFault(status)) {
    return new DomainError('INTERNAL', 'the worker refused this server; its operator must compare their tokens');
  }
  const details = status['grpc-status-details-bin'];
  const info = details === undefined ? undefined : errorInfoOf(details);
  if (info !== undefined && isReason(info.reason)) return new DomainError(info.reason, message, info.metadata);
  return new ConnectError(message, Code[code] === undefined ? Code.Unknown : (code as Code));
}

function errorInfoOf(details: string): { reason: string; metadata: Record<string, string> } | undefined {
  try {
    const status = fromBinary(StatusSchema, Buffer.from(details, 'base64'));
    const any = status.details.find(({ typeUrl }) => typeUrl.endsWith(`/${ErrorInfoSchema.typeName}`));
    return any === undefined ? undefined : fromBinary(ErrorInfoSchema, any.value);
  } catch {
    return undefined;
  }
}

function decodeMessage(message: string): string {
  try {
    return decodeURIComponent(message);
  } catch {
    return message;
  }
}
