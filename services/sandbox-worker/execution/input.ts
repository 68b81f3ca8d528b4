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
  write(offset: number, data: Uint8Array, end: boolean): Promise<number>;
  /** Ends the input where it is; an input that has ended stays so. */
  end(): Promise<number>;
  acknowledged(received: number, written: number, ended: boolean, closed: boolean): void;
  /** After a reconnect: the guest holds this much, and what was under way must be sent again. */
  recover(received: number): void;
  /** The execution ended; who still writes is told. */
  close(): void;
}

export function createInput(numbered: () => bigint, wanted: boolean, send: (frame: Buffer) => void): Input {
  let open = wanted;
  let received = 0;
  let written = 0;
  let sent = 0;
  let ended = false;
  let waiting: Array<() => void> = [];
  /** One writer at a time: the bytes of two would mix. */
  let turn: Promise<unknown> = Promise.resolve();

  function changed(): void {
    const woken = waiting;
    waiting = [];
    for (const wake of woken) wake();
  }

  function refuseUnlessOpen(): void {
    if (wanted && open) return;
    const why = wanted ? 'the program closed its input, or ended' : 'it was started without input_open';
    throw new DomainError('INPUT_NOT_OPEN', `no input can be written: ${why}`);
  }

  /** Sends what the guest has room for. One that waits for its shell has no number yet, and is recovered when it has. */
  function sendOn(offset: number, data: Uint8Array, end: boolean): void {
    const number = numbered();
    if (number === 0n) return;
    const until = offset + data.length;
    sent = Math.max(sent, received);
    while (sent < until && sent < written + inputWindowBytes) {
      const to = Math.min(until, sent + pieceBytes, written + inputWindowBytes);
      send(input(number, sent, data.subarray(sent - offset, to - offset)));
      sent = to;
    }
    if (end && sent >= until) send(inputEnd(number, until));
  }

  async function deliver(offset: number, data: Uint8Array, end: boolean): Promise<number> {
    const until = offset + data.length;
    if (ended && until <= received) return received;
    refuseUnlessOpen();
    if (ended) throw new DomainError('INPUT_NOT_OPEN', 'no input can be written: its end was given before');
    if (offset > received) {
      const message = `input at offset ${offset} would leave a hole; write at offset ${received}`;
      throw new DomainError('INPUT_OFFSET', message, { next_offset: String(received) });
    }
    while (received < until || (end && !ended)) {
      sendOn(offset, data, end);
      await new Promise<void>((resolve) => waiting.push(resolve));
      // A program may end on its input before the writer hears that it was taken.
      const taken = received >= until && (ended || !end);
      if (!open && !taken) refuseUnlessOpen();
    }
    return received;
  }

  return {
    get open() {
      return open && !ended;
    },
    get received() {
      return received;
    },
    write(offset, data, end) {
      const result = turn.then(() => deliver(offset, data, end));
      turn = result.catch(() => {});
      return result;
    },
    end() {
      const result = turn.then(() => (ended || !open ? received : deliver(received, new Uint8Array(), true)));
      turn = result.catch(() => {});
      return result;
    },
    acknowledged(nowReceived, nowWritten, nowEnded, nowClosed) {
      if (nowReceived > Math.max(sent, received) || nowWritten > nowReceived) {
        throw new GuestViolation(`input of ${nowReceived} bytes acknowledged where ${sent} were sent`);
      }
      received = nowReceived;
      written = nowWritten;
      ended ||= nowEnded;
      if (nowClosed) open = false;
      changed();
    },
    recover(nowReceived) {
      received = nowReceived;
      sent = nowReceived;
      changed();
    },
    close() {
      open = false;
      changed();
    },
  };
}
