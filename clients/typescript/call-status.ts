import type { IncomingHttpHeaders, IncomingHttpStatusHeader } from 'node:http2';
import { validateResponseWithCompression, validateTrailer } from '@connectrpc/connect/protocol-grpc';

export type ResponseHeaders = IncomingHttpHeaders & IncomingHttpStatusHeader;

/** Throws what the head of a response tells: a refusal, or that it is no gRPC. */
export function checkResponse(headers: ResponseHeaders): void {
  const usual = headers[':status'] === 200 && headers['content-type'] === 'application/grpc+proto';
  if (usual && headers['grpc-status'] === undefined && headers['grpc-encoding'] === undefined) return;
  const { headerError } = validateResponseWithCompression([], headers[':status'] ?? 0, toWebHeaders(headers));
  if (headerError !== undefined) throw headerError;
}

/** Throws the status at the end of a response, unless it is OK. */
export function checkTrailers(trailers: IncomingHttpHeaders, headers: ResponseHeaders): void {
  if (trailers['grpc-status'] === '0' && trailers['grpc-status-details-bin'] === undefined) return;
  validateTrailer(toWebHeaders(trailers), toWebHeaders(headers));
}

function toWebHeaders(headers: IncomingHttpHeaders): Headers {
  const found = new Headers();
  for (const [name, value] of Object.entries(headers)) {
    if (name.startsWith(':') || value === undefined) continue;
    for (const one of Array.isArray(value) ? value : [value]) found.append(name, one);
  }
  return found;
}
