import { hash, randomBytes, timingSafeEqual } from 'node:crypto';

/** `assay_<id>_<secret>`. */
const shape = /^assay_([A-Za-z0-9]{4,32})_([A-Za-z0-9_-]{16,128})$/;

export interface ApiKey {
  readonly keyId: string;
  /** The whole key. */
  readonly text: string;
}

export function parseApiKey(text: string): ApiKey | undefined {
  const keyId = shape.exec(text)?.[1];
  return keyId === undefined ? undefined : { keyId, text };
}

export function makeApiKey(keyId = randomBytes(8).toString('hex')): ApiKey {
  return { keyId, text: `assay_${keyId}_${randomBytes(24).toString('hex')}` };
}

/** What is stored: 192 random bits need no salt and no slow hash. */
export function hashApiKey(text: string): Uint8Array {
  return hash('sha256', text, 'buffer');
}

export function matchesApiKey(text: string, sha256: Uint8Array): boolean {
  const found = hashApiKey(text);
  return found.length === sha256.length && timingSafeEqual(found, sha256);
}
