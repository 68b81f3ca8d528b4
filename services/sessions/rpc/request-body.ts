import { DomainError } from '../../shared/domain-error.ts';
import type { Caller } from '../auth/caller.ts';
import type { Limits } from '../config.ts';

/** What one request may hold while it arrives. */
export interface RequestBody {
  /** The longest message. */
  readonly limitBytes: number;
  /** How long a message may take to arrive whole. */
  readonly withinMs: number;
  /** Says how many bytes of the request are held now. Throws REQUEST_QUOTA. */
  hold(bytes: number): void;
  /** The call is over: nothing is held from here on, whatever is said. */
  close(): void;
}

/** Bounds what requests hold before they are whole, or have their one answer, for each key, each project and each address. */
export interface RequestBodies {
  /** The body of a call that was let in; without a caller where it needs no key. Say `hold(0)` when nothing of it is held, or close it. */
  open(caller: Pick<Caller, 'keyId' | 'project'> | undefined, address: string): RequestBody;
}

/** What needs no key is asked in a few words. */
const keylessBytes = 4_096;

type BodyLimits = Pick<
  Limits,
  'requestBytes' | 'requestMs' | 'unfinishedBytesPerKey' | 'unfinishedBytesPerProject' | 'unfinishedBytesPerAddress'
>;

export function createRequestBodies(limits: BodyLimits): RequestBodies {
  const byKey = createByteBudget(limits.unfinishedBytesPerKey, 'key');
  const byProject = createByteBudget(limits.unfinishedBytesPerProject, 'project');
  const byAddress = createByteBudget(limits.unfinishedBytesPerAddress, 'address');
  return {
    open(caller, address) {
      const budgets: [ByteBudget, string][] = [[byAddress, address]];
      if (caller !== undefined) budgets.push([byKey, caller.keyId], [byProject, caller.project]);
      let held = 0;
      let closed = false;
      const hold = (bytes: number): void => {
        const more = closed ? -held : bytes - held;
        if (more === 0) return;
        // All before any: a refusal counts nothing.
        for (const [budget, name] of budgets) budget.check(name, more);
        for (const [budget, name] of budgets) budget.add(name, more);
        held += more;
      };
      return {
        limitBytes: caller === undefined ? Math.min(keylessBytes, limits.requestBytes) : limits.requestBytes,
        withinMs: limits.requestMs,
        hold,
        close() {
          closed = true;
          hold(0);
        },
      };
    },
  };
}

interface ByteBudget {
  /** Throws REQUEST_QUOTA where that is too many. */
  check(name: string, bytes: number): void;
  add(name: string, bytes: number): void;
}

function createByteBudget(limit: number, whose: 'key' | 'project' | 'address'): ByteBudget {
  const held = new Map<string, number>();
  return {
    check(name, bytes) {
      const now = (held.get(name) ?? 0) + bytes;
      if (bytes <= 0 || now <= limit) return;
      const message = `unfinished requests of this ${whose} would hold ${now} bytes, over the limit of ${limit} (ASSAY_LIMIT_UNFINISHED_BYTES_PER_${whose.toUpperCase()})`;
      throw new DomainError('REQUEST_QUOTA', `${message}; send fewer at one time`, { limit: String(limit) });
    },
    add(name, bytes) {
      const now = (held.get(name) ?? 0) + bytes;
      if (now > 0) held.set(name, now);
      else held.delete(name);
    },
  };
}

export function requestTimeout({ withinMs }: RequestBody): DomainError {
  const message = `the request had not arrived whole after ${withinMs / 1_000} s, the limit (ASSAY_LIMIT_REQUEST_SECONDS); send it faster`;
  return new DomainError('REQUEST_TIMEOUT', message, { limit: String(withinMs) });
}
