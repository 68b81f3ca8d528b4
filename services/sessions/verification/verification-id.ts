import { createHash } from 'node:crypto';
import { TypeID, typeid } from 'typeid-js';

export const verificationIdShape = /^ver_[0-7][0-9a-hjkmnp-tv-z]{25}$/;

/** The same request id of the same project is always the same verification: making it twice is a conflict in the store. */
export function verificationIdOf(project: string, requestId: string): string {
  if (requestId === '') return typeid('ver').toString();
  const digest = createHash('sha256').update(`verification\0${project}\0${requestId}`).digest();
  return TypeID.fromUUIDBytes('ver', digest.subarray(0, 16)).toString();
}
