import type { Http2Session } from 'node:http2';

/**
 * Holds memory that a stream was cut off in the middle of. What node had handed to the socket by then still leaves it, and
 * once nobody refers to the memory it may hold somebody else's bytes before that. When a ping is answered, all that was
 * queued before it has left.
 */
export interface UnsentMemory {
  hold(bytes: Uint8Array): void;
}

const kept = new WeakMap<Http2Session, UnsentMemory>();

export function unsentMemoryOf(session: Http2Session): UnsentMemory {
  const known = kept.get(session);
  if (known !== undefined) return known;
  const memory = createUnsentMemory(session);
  kept.set(session, memory);
  return memory;
}

function createUnsentMemory(session: Http2Session): UnsentMemory {
  let held: Uint8Array[] = [];
  let leaving: Uint8Array[] = [];

  function ask(): void {
    if (leaving.length > 0 || held.length === 0) return;
    if (session.destroyed) {
      held = [];
      return;
    }
    leaving = held;
    held = [];
    session.ping(() => {
      leaving = [];
      ask();
    });
  }

  return {
    hold(bytes) {
      held.push(bytes);
      ask();
    },
  };
}
