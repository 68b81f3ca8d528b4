import { type DescMessage, fromJson, type JsonValue } from '@bufbuild/protobuf';

/**
 * Which field of a JSON message cannot be decoded, as a path of the names in the schema. Undefined: each field by itself can
 * be. The framework's errors name a field's type and not the field.
 */
export function undecodableField(schema: DescMessage, json: JsonValue): string | undefined {
  if (json === null || typeof json !== 'object' || Array.isArray(json)) return undefined;
  for (const [key, value] of Object.entries(json)) {
    const field = schema.fields.find(({ jsonName, name }) => jsonName === key || name === key);
    if (field === undefined) return key;
    if (isDecodable(schema, { [key]: value })) continue;
    const inner = field.fieldKind === 'message' && !isWellKnown(field.message) ? field.message : undefined;
    const below = inner && undecodableField(inner, value);
    return below === undefined ? field.name : `${field.name}.${below}`;
  }
  return undefined;
}

/** The path of the one field that has this type. Undefined: there is none, or more than one. */
export function onlyFieldOfType(schema: DescMessage, typeName: string): string | undefined {
  const found = fieldsOfType(schema, typeName, new Set());
  return found.length === 1 ? found[0] : undefined;
}

function fieldsOfType(schema: DescMessage, typeName: string, above: ReadonlySet<DescMessage>): string[] {
  if (above.has(schema) || isWellKnown(schema)) return [];
  const seen = new Set(above).add(schema);
  return schema.fields.flatMap(({ name, message, enum: values }) => {
    if ((message ?? values)?.typeName === typeName) return [name];
    return message === undefined ? [] : fieldsOfType(message, typeName, seen).map((below) => `${name}.${below}`);
  });
}

function isDecodable(schema: DescMessage, json: JsonValue): boolean {
  try {
    fromJson(schema, json, { ignoreUnknownFields: false });
    return true;
  } catch {
    return false;
  }
}

/** These have a JSON form of their own. */
function isWellKnown({ typeName }: DescMessage): boolean {
  return typeName.startsWith('google.protobuf.');
}
