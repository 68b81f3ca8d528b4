import { EndReason } from '../../../gen/assay/v1/execution_pb.js';
import { createDeadline, type Deadline } from './deadline.ts';
import type { Doom, DoomReason } from './doom.ts';
import type { FrozenTime } from './frozen-time.ts';

/** How an execution is ended from outside: by its deadline, by a caller, or with its shell. The first reason counts. */
export class Ending {
  /** Why it is to end, once somebody wants it to: then it does as soon as it runs. */
  reason: DoomReason | undefined;
  private doom: Doom | undefined;
  private deadline: Deadline | undefined;
  private readonly frozenTime: FrozenTime;

  constructor(frozenTime: FrozenTime) {
    this.frozenTime = frozenTime;
  }

  /** Whether its processes are being ended. */
  get begun(): boolean {
    return this.doom !== undefined;
  }

  /** Ends its processes if it is to end; `gone` when none is left. */
  begin(doom: (reason: DoomReason) => Doom, gone: () => void): void {
    if (this.doom !== undefined || this.reason === undefined) return;
    this.deadline?.cancel();
    this.doom = doom(this.reason);
    if (this.frozenTime.frozen) this.freeze();
    this.doom.whenGone(gone);
  }

  arm(leftMs: number, expired: (reason: DoomReason) => void): void {
    this.deadline ??= createDeadline(leftMs, () => expired(EndReason.TIMED_OUT));
    if (this.frozenTime.frozen) this.freeze();
  }

  /** It has ended: no deadline counts any more. */
  disarm(): void {
    this.deadline?.cancel();
  }

  /** Its sandbox or this process is ending: there is nothing more to end here, and nowhere to write it. */
  stop(): void {
    this.deadline?.cancel();
    this.doom?.stop();
  }

  programEnded(): void {
    this.doom?.programEnded();
  }

  freeze(): void {
    this.deadline?.pause();
    this.doom?.freeze();
  }

  thaw(): void {
    this.deadline?.resume();
    this.doom?.thaw();
  }
}
