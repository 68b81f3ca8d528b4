import type { IncomingHttpHeaders } from 'node:http2';
import { Code, ConnectError } from '@connectrpc/connect';
import { DomainError } from '../../shared/domain-error.ts';
import { fromStatus } from '../../shared/rpc-error.ts';

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
  const known = details === undefined ? undefined : fromStatus(Buffer.from(details, 'base64'), message);
  return known ?? new ConnectError(message, Code[code] === undefined ? Code.Unknown : (code as Code));
}

function decodeMessage(message: string): string {
  try {
    return decodeURIComponent(message);
  } catch {
    return message;
  }
}
