import { createHash } from 'node:crypto';

/** Checks bytes against `sha512-<base64>`, `sha256-<base64>` or `sha256:<hex>` as they come. */
export interface IntegrityCheck {
  update(chunk: Uint8Array): void;
  /** What was found, in the form of what was expected; undefined where the two agree. */
  difference(): string | undefined;
}

export function createIntegrityCheck(expected: string): IntegrityCheck {
  const [, algorithm = '', separator = '', wanted = ''] = /^(sha256|sha512)([-:])(.+)$/.exec(expected) ?? [];
  if (algorithm === '') throw new TypeError(`${JSON.stringify(expected)} is no integrity`);
  const hash = createHash(algorithm);
  return {
    update: (chunk) => void hash.update(chunk),
    difference() {
      const found = hash.digest(separator === ':' ? 'hex' : 'base64');
      return found === wanted ? undefined : `${algorithm}${separator}${found}`;
    },
  };
}
