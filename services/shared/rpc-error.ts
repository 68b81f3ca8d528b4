import { create, toBinary } from '@bufbuild/protobuf';
import { anyPack } from '@bufbuild/protobuf/wkt';
import { Code, ConnectError } from '@connectrpc/connect';
import { ErrorInfoSchema } from '../../gen/google/rpc/error_details_pb.js';
import { StatusSchema } from '../../gen/google/rpc/status_pb.js';
import { DomainError, isReason } from './domain-error.ts';

const domain = 'assay.dev';

/**
 * The one place where errors become what travels. Anything that is not a DomainError or already a ConnectError is
 * INTERNAL and its text stays here: `report` gets it, the caller does not.
 */
export function toConnectError(error: unknown, report: (error: unknown) => void): ConnectError {
  if (error instanceof ConnectError) return error;
  const known =
    error instanceof DomainError
      ? error
      : new DomainError('INTERNAL', 'the server failed in a way it did not expect; its log has the details');
  if (known !== error || known.code === Code.Internal) report(error);
  const info = { reason: known.reason, domain, metadata: { ...known.metadata } };
  return new ConnectError(known.message, known.code, undefined, [{ desc: ErrorInfoSchema, value: info }]);
}

/** Reads a DomainError back from the wire; the other half of toConnectError. */
export function fromConnectError(error: ConnectError): DomainError | undefined {
  const info = error.findDetails(ErrorInfoSchema)[0];
  if (info === undefined || !isReason(info.reason)) return undefined;
  return new DomainError(info.reason, error.rawMessage, info.metadata);
}

/** A google.rpc.Status, encoded. */
export function toStatus(error: ConnectError): Uint8Array {
  const details = error.findDetails(ErrorInfoSchema).map((info) => anyPack(ErrorInfoSchema, info));
  return toBinary(StatusSchema, create(StatusSchema, { code: error.code, message: error.rawMessage, details }));
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
