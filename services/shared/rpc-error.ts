import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { type Any, AnySchema, anyPack, anyUnpack } from '@bufbuild/protobuf/wkt';
import { Code, ConnectError } from '@connectrpc/connect';
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from '../../gen/google/rpc/error_details_pb.js';
import { StatusSchema } from '../../gen/google/rpc/status_pb.js';
import { DomainError } from './domain-error.ts';
import { durationFromMicros } from './duration.ts';
import { isReason, retryMsOf } from './error-reason.ts';

const domain = 'assay.dev';

type Detail = ConnectError['details'][number];

/** Errors travel in trailers, of which grpc-java takes 8 KiB. A caller may have sent names and values of any length. */
const messageCharacters = 2_000;
const detailCharacters = 400;

function shortened(text: string, characters: number): string {
  return text.length <= characters ? text : `${text.slice(0, characters - 1)}…`;
}

/**
 * The one place where errors become what travels. Anything that is not a DomainError or already a ConnectError is
 * INTERNAL, or HOST_FULL where a disk is full, and its text stays here: `report` gets it, the caller does not.
 */
export function toConnectError(error: unknown, report: (error: unknown) => void): ConnectError {
  if (error instanceof ConnectError) return error;
  const known = error instanceof DomainError ? error : foreign(error);
  if (known !== error || known.code === Code.Internal) report(error);
  const travelling = new ConnectError(shortened(known.message, messageCharacters), known.code);
  travelling.details = detailsOf(known);
  return travelling;
}

/** ErrorInfo first: it is on every error. */
function detailsOf({ reason, message, metadata, code }: DomainError): Detail[] {
  const short = Object.entries(metadata).map(([key, value]) => [key, shortened(value, detailCharacters)]);
  const details: Detail[] = [{ desc: ErrorInfoSchema, value: { reason, domain, metadata: Object.fromEntries(short) } }];
  const retryMs = retryMsOf(reason);
  if (retryMs !== undefined) {
    details.push({ desc: RetryInfoSchema, value: { retryDelay: durationFromMicros(retryMs * 1_000) } });
  }
  const { field } = metadata;
  if (field !== undefined && code === Code.InvalidArgument) {
    const violation = { field: shortened(field, detailCharacters), description: shortened(message, detailCharacters) };
    details.push({ desc: BadRequestSchema, value: { fieldViolations: [{ ...violation, reason }] } });
  }
  return details;
}

/** What a caller is told of an error that is none of ours. */
function foreign(error: unknown): DomainError {
  if (isDiskFull(error)) {
    const message = "the disk of the service's host is full, and the request could not be written down";
    return new DomainError('HOST_FULL', `${message}; free some space, and send the request again`);
  }
  return new DomainError('INTERNAL', 'the server failed in a way it did not expect; its log has the details');
}

function isDiskFull(error: unknown): boolean {
  return ['ENOSPC', 'EDQUOT'].includes((error as NodeJS.ErrnoException | undefined)?.code ?? '');
}

/** Reads a DomainError back from the wire; the other half of toConnectError. */
export function fromConnectError(error: ConnectError): DomainError | undefined {
  const info = error.findDetails(ErrorInfoSchema)[0];
  if (info === undefined || !isReason(info.reason)) return undefined;
  return new DomainError(info.reason, error.rawMessage, info.metadata);
}

/** The same from an encoded google.rpc.Status. Undefined: it names no reason of ours, or is no Status. */
export function fromStatus(status: Uint8Array, message: string): DomainError | undefined {
  try {
    for (const detail of fromBinary(StatusSchema, status).details) {
      const info = anyUnpack(detail, ErrorInfoSchema);
      if (info !== undefined && isReason(info.reason)) return new DomainError(info.reason, message, info.metadata);
    }
    return undefined;
  } catch {
    return undefined;
  }
}

/** A google.rpc.Status, encoded. */
export function toStatus(error: ConnectError): Uint8Array {
  const { code, rawMessage: message } = error;
  return toBinary(StatusSchema, create(StatusSchema, { code, message, details: error.details.map(packed) }));
}

function packed(detail: Detail): Any {
  if ('desc' in detail) return anyPack(detail.desc, create(detail.desc, detail.value));
  return create(AnySchema, { typeUrl: `type.googleapis.com/${detail.type}`, value: detail.value });
}

/** The trailers of a gRPC response that ends in this error, for the streams that are framed by hand. */
export function toTrailers(error: ConnectError): Record<string, string> {
  return {
    'grpc-status': String(error.code),
    'grpc-message': percentEncode(error.rawMessage),
    'grpc-status-details-bin': Buffer.from(toStatus(error)).toString('base64').replace(/=+$/, ''),
  };
}

/** Only what the protocol asks for is escaped: printable ASCII stays as it is, since not every client undoes more. */
export function percentEncode(message: string): string {
  const escaped = (byte: number) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
  return Array.from(Buffer.from(message), (byte) =>
    byte < 0x20 || byte > 0x7e || byte === 0x25 ? escaped(byte) : String.fromCharCode(byte),
  ).join('');
}
