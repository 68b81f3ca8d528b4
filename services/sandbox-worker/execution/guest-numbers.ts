import { GuestViolation } from '../guest/frame.ts';
import type { Shell } from '../shell/shell.ts';
import { Execution } from './execution.ts';

/**
 * The numbers under which the guest knows executions and shells. They only grow and each is used once; what the guest did
 * not take gets another. They are not the order of acceptance: a command that waits for its shell gets one when it is sent.
 */
export interface GuestNumbers {
  readonly last: bigint;
  issue(): bigint;
  /** From here on frames with this number are about its owner. */
  assign(number: bigint, owner: Execution | Shell): void;
  /** It has ended and the guest was told to forget it: its number belongs to nobody any more. */
  retire(execution: Execution): void;
  /** Whether its execution has ended long ago. */
  retired(number: bigint): boolean;
  /** undefined: the frame is about an attempt that was given up, or about an execution that ended long ago. */
  execution(number: bigint): Execution | undefined;
  /** undefined: the number is no shell's. */
  shell(number: bigint): Shell | undefined;
}

export function createGuestNumbers(): GuestNumbers {
  const owners = new Map<bigint, Execution | Shell>();
  let last = 0n;
  const retired = (number: bigint): boolean => number > 0n && number <= last && !owners.has(number);
  return {
    get last() {
      return last;
    },
    issue: () => ++last,
    assign(number, owner) {
      owners.set(number, owner);
      if (number > last) last = number;
    },
    retire(execution) {
      owners.delete(execution.number);
      // Attempts before the last are rare.
      if (execution.attempted) for (const [number, owner] of owners) if (owner === execution) owners.delete(number);
    },
    retired,
    execution(number) {
      const owner = owners.get(number);
      if (owner === undefined && retired(number)) return undefined;
      if (!(owner instanceof Execution)) {
        throw new GuestViolation(`a frame for execution ${number}, which was never started`);
      }
      return owner.number === number ? owner : undefined;
    },
    shell(number) {
      const owner = owners.get(number);
      return owner === undefined || owner instanceof Execution || owner.number !== number ? undefined : owner;
    },
  };
}
