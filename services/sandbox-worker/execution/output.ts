import type { Stream } from '../guest/frame.ts';
import { GuestViolation } from '../guest/frame.ts';
import { createSpool, type Spool, type SpoolDisk } from './spool.ts';
import type { Subscription } from './subscription.ts';
import type { UnreadPace } from './unread-pace.ts';

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
  /** The guest is away: nothing is told before it has said where it goes on. */
  disconnected(): void;
  /** The guest will go on from here; bytes it repeats are not new. */
  recover(acked: number): void;
  complete(total: number): void;
  /** The guest will not tell how far an earlier process came: what that one logged as stored is what there is. */
  claim(logged: number): void;
  release(): void;
}

/** What both streams of an execution need. */
export interface OutputDeps {
  /** The spool's file. */
  readonly path: (stream: Stream) => string;
  readonly keptBytes: number;
  /** Whether an earlier process may have stored some of it. */
  readonly adopted: boolean;
  readonly readers: ReadonlySet<Subscription>;
  readonly sendAck: (stream: Stream, offset: number) => void;
  readonly disk: SpoolDisk;
  readonly pace: UnreadPace;
}

export function createOutput(stream: Stream, deps: OutputDeps): Output {
  return new SpooledOutput(stream, deps);
}

/** A class, because there are two for every execution that a worker remembers. */
class SpooledOutput implements Output {
  readonly spool: Spool;
  private readonly stream: Stream;
  private readonly deps: OutputDeps;
  private readonly lagLimit: number;
  /** Where the guest's next bytes belong; below the spool's total while it repeats itself after a reconnect. */
  private expected = 0;
  private acked = 0;
  /** Whether this process has not yet heard from the guest how far an earlier one came. */
  private unknown: boolean;
  private hold: NodeJS.Timeout | undefined;
  private waitsForItsTurn = false;

  constructor(stream: Stream, deps: OutputDeps) {
    this.stream = stream;
    this.deps = deps;
    this.spool = createSpool(() => deps.path(stream), deps.keptBytes, deps.disk);
    this.lagLimit = Math.min(lagLimitBytes, Math.floor(deps.keptBytes / 4));
    this.unknown = deps.adopted;
  }

  take(offset: number, data: Buffer): void {
    if (offset !== this.expected) throw new GuestViolation(`output at offset ${offset}, expected ${this.expected}`);
    this.expected += data.length;
    const known = this.spool.total - offset;
    if (known >= data.length) return;
    const fresh = known > 0 ? data.subarray(known) : data;
    this.spool.write(offset + data.length - fresh.length, fresh);
  }

  acknowledge(): void {
    if (this.acked === this.repeated) return;
    const readers = this.howReadersDo();
    if (readers === 'lag') this.holdBack();
    else if (readers === 'unread') this.tellInTurn();
    else this.tell();
  }

  disconnected(): void {
    // An acknowledgement on the next connection, before the guest has said how far the last one brought it, would be forgotten here
    // and known there.
    this.expected = this.acked;
  }

  recover(sure: number): void {
    if (this.unknown) this.spool.recover(sure);
    else if (sure > this.acked) {
      throw new GuestViolation(`${sure} bytes of output called acknowledged, expected ${this.acked}`);
    }
    this.unknown = false;
    this.expected = sure;
    this.acked = sure;
  }

  complete(total: number): void {
    this.unknown = false;
    this.expected = total;
    this.acked = total;
    this.spool.complete(total);
  }

  claim(logged: number): void {
    if (!this.unknown) return;
    this.unknown = false;
    try {
      this.spool.recover(logged);
    } catch {
      // A disk that lost it: readers of the log are told a gap.
    }
  }

  release(): void {
    clearTimeout(this.hold);
    this.spool.release();
  }

  /** What is stored, and the guest has said since it connected: where it is told more than that, it skips the rest. */
  private get repeated(): number {
    return Math.min(this.expected, this.spool.total);
  }

  /** KEPT UP: one of them is not far behind. LAG: all who read are. UNREAD: nobody reads. */
  private howReadersDo(): 'kept up' | 'lag' | 'unread' {
    const { stream } = this;
    let lag = false;
    for (const reader of this.deps.readers) {
      if (reader.abandoned(stream)) continue;
      if (this.spool.total - reader.cursor(stream) <= this.lagLimit) return 'kept up';
      lag = true;
    }
    return lag ? 'lag' : 'unread';
  }

  private holdBack(): void {
    if (this.hold !== undefined) return;
    const { stream } = this;
    const before = new Map([...this.deps.readers].map((reader) => [reader, reader.cursor(stream)]));
    this.hold = setTimeout(() => {
      this.hold = undefined;
      for (const [reader, cursor] of before) {
        if (reader.cursor(stream) - cursor < progressBytes) reader.abandon(stream);
      }
      this.acknowledge();
    }, progressMs);
    this.hold.unref();
  }

  private tellInTurn(): void {
    if (this.waitsForItsTurn) return;
    this.waitsForItsTurn = true;
    this.deps.pace.inTurn(() => {
      this.waitsForItsTurn = false;
      return this.tell();
    });
  }

  /** Returns how many bytes that were. */
  private tell(): number {
    const bytes = this.repeated - this.acked;
    clearTimeout(this.hold);
    this.hold = undefined;
    this.acked += bytes;
    if (bytes > 0) this.deps.sendAck(this.stream, this.acked);
    return bytes;
  }
}
