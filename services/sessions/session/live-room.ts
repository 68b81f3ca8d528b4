import { DomainError } from '../../shared/domain-error.ts';
import type { Room } from '../../shared/store/session-store.ts';

/** Keeps room in the store of live sessions for the changes and ends of those that there are: a full store takes none. */
export interface LiveRoom {
  /** Puts in how full the store was found. */
  note(room: Room): void;
  /** Throws STORE_FULL where no session may be made. */
  check(): void;
}

/** Over this share no session is made. */
const full = 7 / 8;

export function createLiveRoom(): LiveRoom {
  let found: Room | undefined;
  return {
    note(room) {
      found = room;
    },
    check() {
      if (found === undefined || found.bytes <= found.maxBytes * full) return;
      const { bytes, maxBytes } = found;
      const message = `the store of live sessions holds ${bytes} of ${maxBytes} bytes, and the rest is for those that live; close sessions and try again, or have ASSAY_SESSION_STORE_BYTES raised`;
      throw new DomainError('STORE_FULL', message, { limit: String(maxBytes) });
    },
  };
}
