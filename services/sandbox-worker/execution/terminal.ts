import { DomainError } from '../../shared/domain-error.ts';
import { resize, type ScreenSize } from '../guest/frame.ts';

/** The terminal of an execution, as far as the worker has to know it: its size, until the guest surely has it. */
export interface Terminal {
  resize(size: ScreenSize): void;
  /** The guest may not have heard of the last size: it was not connected, or had not started the execution. */
  remind(): void;
}

export function createTerminal(numbered: () => bigint, present: boolean, send: (frame: Buffer) => void): Terminal {
  let last: ScreenSize | undefined;

  function remind(): void {
    if (last !== undefined) send(resize(numbered(), last));
  }

  return {
    remind,
    resize({ rows, columns }) {
      if (!present) throw new DomainError('NO_TERMINAL', 'the execution has no terminal: it was started without one');
      last = { rows, columns };
      remind();
    },
  };
}
