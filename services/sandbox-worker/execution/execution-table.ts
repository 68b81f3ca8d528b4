import { closeSync, openSync } from 'node:fs';
import { fromBinary } from '@bufbuild/protobuf';
import { type JournalRecord, JournalRecordSchema } from '../../../gen/assay/internal/v1/journal_pb.js';
import type { EndedMemory, EndedOfSession } from './ended-memory.ts';
import type { Execution } from './execution.ts';
import { recordAt } from './journal-reader.ts';
import { OutputHolding, type OutputOwner } from './output-holding.ts';

/** What a table needs of its session. */
export interface TableHost extends Pick<OutputOwner, 'project' | 'budget'> {
  readonly memory: EndedMemory;
  readonly journal: { readonly size: number };
  journalPath(): string;
  /** Makes an execution from the record of its acceptance. */
  make(accepted: JournalRecord, holding: OutputHolding): Execution;
  /** It left memory. */
  evicted(execution: Execution): void;
}

/** What the journal's records of a few executions say beside acceptance and end. */
interface Rare {
  readonly trims: readonly number[];
  readonly inputBytes: number;
  readonly inputEnded: boolean;
}

const usual: Rare = { trims: [], inputBytes: 0, inputEnded: false };

/**
 * The executions of one session by id and by number. All that have not ended are in memory, and of the others those that
 * ended last or were asked for last. Of the rest an index is: where the journal has their records.
 */
export class ExecutionTable implements EndedOfSession {
  readonly kept = new Set<Execution>();
  private readonly host: TableHost;
  private readonly owner: OutputOwner;
  private readonly numbers = new Map<string, number>();
  private readonly present = new Map<number, Execution>();
  /** Dropped, and perhaps still used by somebody: there are never two objects of one execution. */
  private readonly dropped = new Map<number, WeakRef<Execution>>();
  private readonly collected = new FinalizationRegistry<number>((number) => {
    if (this.dropped.get(number)?.deref() === undefined) this.dropped.delete(number);
  });
  /** Positions of records in the journal, by number; of executions that were dropped. */
  private readonly accepted: number[] = [];
  private readonly ended: number[] = [];
  private readonly drained: number[] = [];
  private readonly rare = new Map<number, Rare>();
  /** By number; of those that take space. */
  private readonly holdings: (OutputHolding | undefined)[] = [];
  private fd: number | undefined;
  private released = false;

  constructor(host: TableHost) {
    this.host = host;
    this.owner = {
      get project() {
        return host.project;
      },
      budget: host.budget,
      trim: (number, keep) => this.at(number)?.trim(keep),
    };
  }

  get size(): number {
    return this.numbers.size;
  }

  holding(number: bigint): OutputHolding {
    return this.holdings[Number(number)] ?? new OutputHolding(this.owner, number);
  }

  add(execution: Execution): void {
    const number = Number(execution.spec.number);
    this.numbers.set(execution.id, number);
    this.present.set(number, execution);
    this.holdings[number] = execution.holding;
  }

  find(id: string): Execution | undefined {
    const number = this.numbers.get(id);
    return number === undefined ? undefined : this.at(BigInt(number));
  }

  at(number: bigint): Execution | undefined {
    const index = Number(number);
    return this.present.get(index) ?? this.readBack(index);
  }

  /** Nothing more will come of it; it may leave memory. */
  settled(execution: Execution): void {
    if (!this.released) this.host.memory.keep(execution, this);
  }

  evict(execution: Execution): boolean {
    const { spec, positions, holding, input } = execution;
    // One that was lost has no record of how long its streams are.
    const complete = positions.drained >= 0 || execution.refusal !== undefined;
    if (!complete || !execution.idle || positions.last >= this.host.journal.size) return false;
    execution.rest();
    const number = Number(spec.number);
    this.accepted[number] = positions.accepted;
    this.ended[number] = positions.ended;
    this.drained[number] = positions.drained;
    if (positions.trims.length > 0 || input.received > 0 || input.ended) {
      this.rare.set(number, { trims: positions.trims, inputBytes: input.received, inputEnded: input.ended });
    }
    holding.stdoutBytes = execution.spool(1).held;
    if (holding.heldBytes === 0) this.holdings[number] = undefined;
    this.present.delete(number);
    this.dropped.set(number, new WeakRef(execution));
    this.collected.register(execution, number);
    this.host.evicted(execution);
    return true;
  }

  /** What each stream takes of the disk. */
  *heldBytes(): Generator<number> {
    for (const [number, holding] of this.holdings.entries()) {
      if (holding === undefined || holding.heldBytes === 0) continue;
      const stdout = this.present.get(number)?.spool(1).held ?? holding.stdoutBytes;
      if (stdout > 0) yield stdout;
      if (holding.heldBytes > stdout) yield holding.heldBytes - stdout;
    }
  }

  /** The session is no longer this worker's; what is asked for now is read and not kept. */
  release(): void {
    this.released = true;
    this.host.memory.release(this);
    for (const holding of this.holdings) if (holding !== undefined) this.host.budget.released(holding);
  }

  private readBack(number: number): Execution | undefined {
    const accepted = this.accepted[number];
    if (accepted === undefined) return undefined;
    const used = this.dropped.get(number)?.deref();
    const execution = used ?? this.restore(number, accepted);
    if (this.released) {
      if (used === undefined) this.dropped.set(number, new WeakRef(execution));
      return execution;
    }
    this.dropped.delete(number);
    this.present.set(number, execution);
    this.host.memory.keep(execution, this);
    return execution;
  }

  private restore(number: number, accepted: number): Execution {
    const holding = this.holding(BigInt(number));
    const { trims, inputBytes, inputEnded } = this.rare.get(number) ?? usual;
    holding.counting = false;
    try {
      const execution = this.host.make(this.read(accepted), holding);
      execution.positions.accepted = accepted;
      for (const position of [this.ended[number], this.drained[number], ...trims]) {
        if (position !== undefined && position >= 0) execution.restore(this.read(position).record, position);
      }
      execution.input.restore(inputBytes, inputEnded);
      return execution;
    } finally {
      holding.counting = true;
      this.holdings[number] = holding;
    }
  }

  /** The descriptor stays open for what is read in the same turn: a list reads many. */
  private read(position: number): JournalRecord {
    if (this.fd === undefined) {
      const fd = openSync(this.host.journalPath(), 'r');
      this.fd = fd;
      setImmediate(() => {
        this.fd = undefined;
        closeSync(fd);
      });
    }
    return fromBinary(JournalRecordSchema, recordAt(this.fd, position));
  }
}
