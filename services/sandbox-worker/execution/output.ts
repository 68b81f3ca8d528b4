import type { Stream } from '../guest/frame.ts';
import { GuestViolation } from '../guest/frame.ts';
import { createSpool, type Spool, type SpoolDisk } from './spool.ts';
import type { Subscription } from './subscription.ts';

/** A reader that is behind by more than this, and reads, slows the program down instead of losing bytes. */
const lagLimitBytes = 8 * 1_048_576;
/** A reader must take this much in this time to be waited for. */
const progressBytes = 65_536;
const progressMs = 1_000;

/**
 * One output stream: its spool, and the rule by which the guest is told that bytes are stored. Telling it late is what
 * slows a program to the speed of its readers, so it is done only for as long as every reader lags and one still reads.
 */
export interface Output {
  readonly spool: Spool;
  /** Stores bytes the guest sent. */
  take(offset: number, data: Buffer): void;
  /** Tells the guest what is stored, unless the readers want it to wait. */
  acknowledge(): void;
  /** The guest will go on from here; bytes it repeats are not new. */
  recover(acked: number): void;
  complete(total: number): void;
  /** The guest will not tell how far an earlier process came: what that one logged as stored is what there is. */
  claim(logged: number): void;
  release(): void;
}

export function createOutput(
  stream: Stream,
  path: string,
  keptBytes: number,
  adopted: boolean,
  readers: ReadonlySet<Subscription>,
  sendAck: (stream: Stream, offset: number) => void,
  disk: SpoolDisk,
): Output {
  const spool = createSpool(path, keptBytes, disk);
  const lagLimit = Math.min(lagLimitBytes, Math.floor(keptBytes / 4));
  /** Where the guest's next bytes belong; below the spool's total while it repeats itself after a reconnect. */
  let expected = 0;
  let acked = 0;
  /** Whether this process has not yet heard from the guest how far an earlier one came. */
  let unknown = adopted;
  let hold: NodeJS.Timeout | undefined;

  function readersWantItToWait(): boolean {
    let waiting = false;
    for (const reader of readers) {
      if (reader.abandoned(stream)) continue;
      if (spool.total - reader.cursor(stream) <= lagLimit) return false;
      waiting = true;
    }
    return waiting;
  }

  function holdAck(): void {
    if (hold !== undefined) return;
    const before = new Map([...readers].map((reader) => [reader, reader.cursor(stream)]));
    hold = setTimeout(() => {
      hold = undefined;
      for (const [reader, cursor] of before) {
        if (reader.cursor(stream) - cursor < progressBytes) reader.abandon(stream);
      }
      acknowledge();
    }, progressMs);
    hold.unref();
  }

  function acknowledge(): void {
    // Where the guest is told more than it has repeated, it skips the rest.
    const stored = Math.min(expected, spool.total);
    if (acked === stored) return;
    if (readersWantItToWait()) {
      holdAck();
      return;
    }
    clearTimeout(hold);
    hold = undefined;
    acked = stored;
    sendAck(stream, acked);
  }

  return {
    spool,
    acknowledge,
    take(offset, data) {
      if (offset !== expected) throw new GuestViolation(`output at offset ${offset}, expected ${expected}`);
      expected += data.length;
      const known = spool.total - offset;
      if (known >= data.length) return;
      const fresh = known > 0 ? data.subarray(known) : data;
      const at = offset + data.length - fresh.length;
      spool.write(at, fresh);
    },
    recover(sure) {
      if (unknown) spool.recover(sure);
      else if (sure > acked) throw new GuestViolation(`${sure} bytes of output called acknowledged, expected ${acked}`);
      unknown = false;
      expected = sure;
      acked = sure;
    },
    complete(total) {
      unknown = false;
      expected = total;
      acked = total;
      spool.complete(total);
    },
    claim(logged) {
      if (!unknown) return;
      unknown = false;
      try {
        spool.recover(logged);
      } catch {
        // A disk that lost it: readers of the log are told a gap.
      }
    },
    release() {
      clearTimeout(hold);
      spool.release();
    },
  };
}
