import { type DescMessage, type DescMethod, fromJson, type JsonValue } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import { DomainError } from '../../shared/domain-error.ts';
import { grpcPrefixBytes } from '../../shared/grpc-frame.ts';
import { invalid, show, unreadable } from '../validation/field.ts';
import { onlyFieldOfType, undecodableField } from '../validation/json-field.ts';
import { decodeRequest } from '../validation/message.ts';

/** Headers that the framework may refuse a call for before it reads the message. */
const encodingHeaders = {
  grpc: 'grpc-encoding',
  connect: 'connect-content-encoding',
  unary: 'content-encoding',
} as const;
const timeoutHeaders = { grpc: 'grpc-timeout', connect: 'connect-timeout-ms', unary: 'connect-timeout-ms' } as const;

/** The same headers without those that the framework may refuse a call for. */
export function withoutRefusable(header: Headers): Headers {
  const rest = new Headers(header);
  for (const name of [...Object.values(encodingHeaders), ...Object.values(timeoutHeaders)]) rest.delete(name);
  return rest;
}

/** Why the framework refused a call with one message before any handler ran, told as all errors are. */
export function unreadableRequest(method: DescMethod, header: Headers, body: Buffer): DomainError {
  const contentType = header.get('content-type') ?? '';
  const framing = /^application\/(grpc|connect)/.exec(contentType)?.[1] as 'grpc' | 'connect' | undefined;
  const encoding = header.get(encodingHeaders[framing ?? 'unary']);
  if (encoding !== null && encoding !== 'identity') return compressed(encodingHeaders[framing ?? 'unary'], encoding);
  const message = framing === undefined ? body : messageIn(body);
  if (message === undefined) return unreadable('found no whole message', 'one');
  if (/json/.test(contentType)) {
    const error = jsonError(method.input, message.toString());
    if (error !== undefined) return error;
  } else {
    try {
      decodeRequest(method.input, message);
    } catch (error) {
      return error as DomainError;
    }
  }
  const timeout = timeoutHeaders[framing ?? 'unary'];
  const given = header.get(timeout);
  if (given !== null) return unreadable(`found ${show(given)}`, 'a timeout as the protocol writes it', timeout);
  return unreadable('found a call that cannot be understood', `one of ${method.name}`);
}

/** The same for a message of a stream, which the framework reads while the handler runs. Undefined: it is another error. */
export function unreadableMessage(error: unknown, { input }: DescMethod): DomainError | undefined {
  if (!(error instanceof ConnectError) || error.details.length > 0) return undefined;
  const { code, rawMessage, metadata } = error;
  const compression = /^unknown compression "(.*)":/.exec(rawMessage)?.[1];
  if (compression !== undefined) {
    return compressed(encodingHeaders[metadata.has('grpc-accept-encoding') ? 'grpc' : 'connect'], compression);
  }
  const binary = /^parse binary: (.*)/.exec(rawMessage)?.[1];
  if (binary !== undefined) return unreadable(`cannot be read: ${binary}`, 'a message of this method');
  if (rawMessage.endsWith('incomplete envelope')) return unreadable('found no whole message', 'one');
  if (code !== Code.InvalidArgument) return undefined;
  // The message itself is gone by now.
  const typeName = /(?:message|enum) (\S+) from JSON/.exec(rawMessage)?.[1];
  return unreadableJson(rawMessage, typeName && onlyFieldOfType(input, typeName));
}

/** gRPC has a code of its own for it, by which clients know to send the next request as it is. */
function compressed(header: string, found: string): DomainError {
  const message = `${header}: found compression "${found}"; expected none: compressed requests are not taken`;
  return new DomainError('COMPRESSION_NOT_OFFERED', message, { header });
}

/** Why the text is no message of this schema. Undefined: it is one. */
function jsonError(schema: DescMessage, text: string): DomainError | undefined {
  let json: JsonValue;
  try {
    json = JSON.parse(text);
  } catch (error) {
    return unreadable((error as Error).message, 'JSON');
  }
  try {
    fromJson(schema, json, { ignoreUnknownFields: false });
    return undefined;
  } catch (error) {
    return unreadableJson((error as Error).message, undecodableField(schema, json));
  }
}

/** Most of what the framework says may be the caller's own words, of any length. */
const saidCharacters = 300;

function unreadableJson(said: string, place: string | undefined): DomainError {
  const message = said.slice(0, saidCharacters);
  const [, known, unknown] = /(?:field|oneof) \S*\.(\w+) from JSON|key "([^"]*)(?:" is unknown|$)/.exec(message) ?? [];
  const field = (place ?? known ?? unknown)?.slice(0, saidCharacters);
  if (field === undefined) return new DomainError('UNREADABLE_REQUEST', message);
  const duration = /message google\.protobuf\.Duration from JSON: (.*)$/.exec(message)?.[1];
  if (duration !== undefined) return invalid(field, `found ${duration}`, 'seconds as text, such as "60s"');
  return new DomainError('INVALID_FIELD', `${field}: ${message}`, { field });
}

/** Undefined: it is not whole, or there is more. */
function messageIn(body: Buffer): Buffer | undefined {
  if (body.length < grpcPrefixBytes || body.readUInt32BE(1) !== body.length - grpcPrefixBytes) return undefined;
  return body.subarray(grpcPrefixBytes);
}
