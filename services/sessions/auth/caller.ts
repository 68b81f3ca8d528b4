import { createContextKey, type HandlerContext } from '@connectrpc/connect';
import { DomainError } from '../../shared/domain-error.ts';

/** Who calls, once the key is known to be good. */
export interface Caller {
  readonly keyId: string;
  readonly project: string;
  /** Whether the key may do everything in its project. */
  readonly admin: boolean;
  /** Whether the key may see what graders see: hidden tests, oracles, where a fix is public. */
  readonly grader: boolean;
}

/** Handlers find their caller here; a call that needs no key has none. */
export const callerKey = createContextKey<Caller | undefined>(undefined, { description: 'caller' });

export function requireCaller(context: Pick<HandlerContext, 'values'>): Caller {
  const caller = context.values.get(callerKey);
  if (caller === undefined) throw new DomainError('UNAUTHENTICATED', 'this call needs an API key');
  return caller;
}
