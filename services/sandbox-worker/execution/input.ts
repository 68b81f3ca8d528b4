import { DomainError } from '../../shared/domain-error.ts';
import { GuestViolation, input, inputEnd, inputWindowBytes } from '../guest/frame.ts';

const pieceBytes = 65_536;

/**
 * An execution's input. The guest counts what it received, so bytes are sent again after a reconnect without being
 * given twice; a write is answered when the guest holds it, never when a socket took it.
 */
export interface Input {
  readonly open: boolean;
  readonly received: number;
  /** Whether its end was given. */
  readonly ended: boolean;
  /** The signal gives the write up, and its bytes: whoever asked for it is gone, and what the guest did not take is not sent. */
  write(offset: number, data: Uint8Array, end: boolean, signal?: AbortSignal): Promise<number>;
  /** Ends the input where it is; an input that has ended stays so. */
  end(): Promise<number>;
  acknowledged(received: number, written: number, ended: boolean, closed: boolean): void;
  /** After a reconnect: the guest holds this much, and what was under way must be sent again. */
  recover(received: number): void;
  /** The execution ended; who still writes is told. */
  close(): void;
  /** Takes up the input of an execution that has ended, so that a repeated write is answered as before. */
  restore(received: number, ended: boolean): void;
}

export function createInput(numbered: () => bigint, wanted: boolean, send: (frame: Buffer) => void): Input {
  return new CountedInput(numbered, wanted, send);
}

/** One write. Its bytes are let go of when it is given up. */
interface Writing {
  readonly offset: number;
  readonly until: number;
  readonly end: boolean;
  data: Uint8Array | undefined;
}

const nobody: Promise<unknown> = Promise.resolve();

/** A class, because there is one for every execution that a worker remembers. */
class CountedInput implements Input {
  received = 0;
  ended = false;
  private readonly numbered: () => bigint;
  private readonly wanted: boolean;
  private readonly send: (frame: Buffer) => void;
  private unclosed: boolean;
  private written = 0;
  private sent = 0;
  private waiting: Array<() => void> | undefined;
  /** One writer at a time: the bytes of two would mix. */
  private turn = nobody;

  constructor(numbered: () => bigint, wanted: boolean, send: (frame: Buffer) => void) {
    this.numbered = numbered;
    this.wanted = wanted;
    this.send = send;
    this.unclosed = wanted;
  }

  get open(): boolean {
    return this.unclosed && !this.ended;
  }

  write(offset: number, data: Uint8Array, end: boolean, signal?: AbortSignal): Promise<number> {
    const writing: Writing = { offset, until: offset + data.length, end, data };
    const delivered = this.inTurn(() => this.deliver(writing));
    return signal === undefined ? delivered : this.unlessGivenUp(writing, delivered, signal);
  }

  end(): Promise<number> {
    return this.inTurn(() => (this.open ? this.deliver(this.atEnd()) : this.received));
  }

  acknowledged(received: number, written: number, ended: boolean, closed: boolean): void {
    if (received > Math.max(this.sent, this.received) || written > received) {
      throw new GuestViolation(`input of ${received} bytes acknowledged where ${this.sent} were sent`);
    }
    this.received = received;
    this.written = written;
    this.ended ||= ended;
    if (closed) this.unclosed = false;
    this.changed();
  }

  recover(received: number): void {
    this.received = received;
    this.sent = received;
    this.changed();
  }

  close(): void {
    this.unclosed = false;
    this.changed();
  }

  restore(received: number, ended: boolean): void {
    this.received = received;
    this.ended = ended;
    this.unclosed = false;
  }

  private inTurn(work: () => Promise<number> | number): Promise<number> {
    const result = this.turn.then(work);
    this.turn = result.catch(() => {});
    return result;
  }

  private atEnd(): Writing {
    return { offset: this.received, until: this.received, end: true, data: new Uint8Array() };
  }

  /** Rejects as soon as the write is given up, also while it waits behind others: its caller holds the bytes until then. */
  private unlessGivenUp(writing: Writing, delivered: Promise<number>, signal: AbortSignal): Promise<number> {
    return new Promise((resolve, reject) => {
      const giveUp = (): void => {
        writing.data = undefined;
        reject(signal.reason);
        this.changed();
      };
      signal.addEventListener('abort', giveUp, { once: true });
      if (signal.aborted) giveUp();
      delivered.then(resolve, reject).finally(() => signal.removeEventListener('abort', giveUp));
    });
  }

  private async deliver(writing: Writing): Promise<number> {
    const { offset, until, end } = writing;
    if (writing.data === undefined) return this.received;
    if (this.ended && until <= this.received) return this.received;
    this.refuseUnlessOpen();
    if (this.ended) throw new DomainError('INPUT_NOT_OPEN', 'no input can be written: its end was given before');
    if (offset > this.received) {
      const message = `input at offset ${offset} would leave a hole; write at offset ${this.received}`;
      throw new DomainError('INPUT_OFFSET', message, { next_offset: String(this.received) });
    }
    while (this.received < until || (end && !this.ended)) {
      this.sendOn(offset, writing.data, end);
      await new Promise<void>((resolve) => {
        this.waiting ??= [];
        this.waiting.push(resolve);
      });
      if (writing.data === undefined) return this.received;
      // A program may end on its input before the writer hears that it was taken.
      const taken = this.received >= until && (this.ended || !end);
      if (!this.unclosed && !taken) this.refuseUnlessOpen();
    }
    return this.received;
  }

  private refuseUnlessOpen(): void {
    if (this.wanted && this.unclosed) return;
    const why = this.wanted ? 'the program closed its input, or ended' : 'it was started without input_open';
    throw new DomainError('INPUT_NOT_OPEN', `no input can be written: ${why}`);
  }

  /** Sends what the guest has room for. One that waits for its shell has no number yet, and is recovered when it has. */
  private sendOn(offset: number, data: Uint8Array, end: boolean): void {
    const number = this.numbered();
    if (number === 0n) return;
    const until = offset + data.length;
    this.sent = Math.max(this.sent, this.received);
    while (this.sent < until && this.sent < this.written + inputWindowBytes) {
      const to = Math.min(until, this.sent + pieceBytes, this.written + inputWindowBytes);
      this.send(input(number, this.sent, data.subarray(this.sent - offset, to - offset)));
      this.sent = to;
    }
    if (end && this.sent >= until) this.send(inputEnd(number, until));
  }

  private changed(): void {
    const woken = this.waiting ?? [];
    this.waiting = undefined;
    for (const wake of woken) wake();
  }
}
