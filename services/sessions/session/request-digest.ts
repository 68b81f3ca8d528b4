import { createHash } from 'node:crypto';
import { type DescMessage, type MessageShape, toJson } from '@bufbuild/protobuf';

/** The same for two requests that ask for the same thing, whatever the order of their map entries. */
export function requestDigest<Desc extends DescMessage>(schema: Desc, request: MessageShape<Desc>): Uint8Array {
  const text = JSON.stringify(toJson(schema, request), (_key, value: unknown) =>
    value !== null && typeof value === 'object' && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
      : value,
  );
  return createHash('sha256').update(text).digest();
}
