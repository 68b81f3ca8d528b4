import { createHmac, timingSafeEqual } from 'node:crypto';
import { DomainError } from '../../shared/domain-error.ts';

/** Opaque page tokens: a position in a list, sealed together with the query it belongs to. */
export interface PageTokens {
  make(query: string, position: string): string;
  /** Throws INVALID_PAGE_TOKEN for a token that was changed or belongs to another query. */
  open(query: string, token: string): string;
}

const macBytes = 16;

/** Every instance has the same secret, so that a page may be asked of another one. */
export function createPageTokens(secret: string): PageTokens {
  const key = createHmac('sha256', secret).update('assay page tokens').digest();
  const mac = (query: string, position: string): Buffer =>
    createHmac('sha256', key)
      .update(JSON.stringify([query, position]))
      .digest()
      .subarray(0, macBytes);
  return {
    make: (query, position) => Buffer.concat([mac(query, position), Buffer.from(position)]).toString('base64url'),
    open(query, token) {
      const bytes = Buffer.from(token.slice(0, 4_096), 'base64url');
      const position = bytes.subarray(macBytes).toString();
      if (bytes.length > macBytes && timingSafeEqual(bytes.subarray(0, macBytes), mac(query, position)))
        return position;
      const message =
        'page_token: not a next_page_token of this query; send the same query again, or no token to begin';
      throw new DomainError('INVALID_PAGE_TOKEN', message, { field: 'page_token' });
    },
  };
}
