import { createContextKey } from '@connectrpc/connect';

/** What the next service is told of the call's trace. */
export const traceparentKey = createContextKey<string | undefined>(undefined, { description: 'traceparent' });
