import { type DescMessage, fromBinary, type MessageShape } from '@bufbuild/protobuf';
import { unreadable } from './field.ts';

/** The message of a request that is framed by hand. */
export function decodeRequest<Desc extends DescMessage>(schema: Desc, bytes: Uint8Array): MessageShape<Desc> {
  try {
    return fromBinary(schema, bytes);
  } catch (error) {
    throw unreadable(`cannot be read: ${(error as Error).message}`, 'a message of this method');
  }
}
