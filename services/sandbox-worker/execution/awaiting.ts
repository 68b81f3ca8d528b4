import { create } from '@bufbuild/protobuf';
import { type AwaitingInput, AwaitingInputKind, AwaitingInputSchema } from '../../../gen/assay/v1/execution_pb.js';
import { GuestViolation } from '../guest/frame.ts';

/** Whether a program waits for input. The guest says when it does; it is over as soon as anything moves. Never stored. */
export interface Awaiting {
  /** The same object for as long as it is the same wait. */
  readonly now: AwaitingInput | undefined;
  /** Returns whether that is news. */
  seen(kind: number, inputBytes: number): boolean;
  over(): void;
}

export function createAwaiting(): Awaiting {
  let now: AwaitingInput | undefined;
  return {
    get now() {
      return now;
    },
    seen(kind, inputBytes) {
      if (kind !== AwaitingInputKind.READING && kind !== AwaitingInputKind.QUIET) {
        throw new GuestViolation(`AWAITING of kind ${kind}`);
      }
      if (now?.kind === kind) return false;
      now = create(AwaitingInputSchema, { kind, inputBytes: BigInt(inputBytes) });
      return true;
    },
    over() {
      now = undefined;
    },
  };
}
