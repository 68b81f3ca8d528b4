import { createHash } from 'node:crypto';
import { TypeID, typeid } from 'typeid-js';

export const sessionIdShape = /^ses_[0-7][0-9a-hjkmnp-tv-z]{25}$/;

export function makeSessionId(): string {
  return typeid('ses').toString();
}

/** The same request id of the same project is always the same session: creating it twice is a conflict in the store. */
export function sessionIdOfRequest(project: string, requestId: string): string {
  return TypeID.fromUUIDBytes('ses', digest(project, requestId).subarray(0, 16)).toString();
}

export function makeExecutionId(): string {
  return typeid('exe').toString();
}

function digest(project: string, requestId: string): Uint8Array {
  return createHash('sha256').update(`session\0${project}\0${requestId}`).digest();
}
