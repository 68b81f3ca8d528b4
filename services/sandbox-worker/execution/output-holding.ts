import type { Holding, SpoolBudget } from './spool-budget.ts';

/** Whose output it is. */
export interface OutputOwner {
  readonly project: string;
  readonly budget: SpoolBudget;
  /** Gives up output of the execution with this number. */
  trim(number: bigint, keep: { readonly head: number; readonly tail: number }): void;
}

/** The disk that the output of one execution takes. It stays in memory when the execution does not, so it is small. */
export class OutputHolding implements Holding {
  heldBytes = 0;
  /** How much of it is standard output; known of an execution that is not in memory. */
  stdoutBytes = 0;
  endedMs = 0;
  /** False while an execution is read back: its bytes are counted already. */
  counting = true;
  private readonly owner: OutputOwner;
  private readonly number: bigint;

  constructor(owner: OutputOwner, number: bigint) {
    this.owner = owner;
    this.number = number;
  }

  get project(): string {
    return this.owner.project;
  }

  grew(bytes: number): void {
    if (!this.counting) return;
    this.heldBytes += bytes;
    this.owner.budget.grew(this, bytes);
  }

  settled(endedMs: number): void {
    this.endedMs = endedMs;
    this.owner.budget.settled(this);
  }

  trim(keep: { readonly head: number; readonly tail: number }): void {
    this.owner.trim(this.number, keep);
  }
}
