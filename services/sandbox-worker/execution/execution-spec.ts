import type { Tracing } from '../../shared/tracing.ts';
import type { ContainerCgroups } from '../cgroup/execution-cgroup.ts';
import type { FailureBoundary } from '../failure-boundary.ts';
import type { StartSpec, Stream } from '../guest/frame.ts';
import type { Meter } from '../meter.ts';
import type { EndedMemory } from './ended-memory.ts';
import type { Execution } from './execution.ts';
import type { FrozenTime } from './frozen-time.ts';
import type { Journal } from './journal.ts';
import type { Nests } from './nests.ts';
import type { SpoolBudget } from './spool-budget.ts';
import type { UnreadPace } from './unread-pace.ts';

/** What an execution needs from its sandbox. */
export interface ExecutionHost {
  readonly project: string;
  readonly sessionId: string;
  readonly journal: Journal;
  readonly budget: SpoolBudget;
  /** Bounds the ended executions in memory. */
  readonly memory: EndedMemory;
  readonly pace: UnreadPace;
  readonly meter: Meter;
  readonly tracing: Tracing | undefined;
  readonly frozenTime: FrozenTime;
  /** For timers and work that nobody awaits. */
  readonly boundary: FailureBoundary;
  /** The next number between worker and guest, for this execution. */
  issue(execution: Execution): bigint;
  journalPath(): string;
  cgroups(): ContainerCgroups | undefined;
  /** Of the whole container, where executions have no cgroups; undefined where they have. */
  memoryKills(): number | undefined;
  spoolPath(number: bigint, stream: Stream): string;
  send(frame: Buffer): void;
  /** A process runs outside of the cgroup that it should be in. */
  unplaced(number: bigint): void;
  /** Bytes were stored; the guest is to be told when the current read is done. */
  stored(execution: Execution): void;
  /** A program ended: a good moment to prepare for the next. */
  ended(): void;
  /** The nest of an execution that has ended. */
  giveBack: Nests['giveBack'];
  /** Nothing more will come of it. */
  settled(execution: Execution): void;
}

/** What is fixed when an execution is accepted. */
export interface ExecutionSpec {
  /** Its place in the order of acceptance. */
  readonly number: bigint;
  /** The nest that it began in, if any. */
  readonly nest: number;
  readonly id: string;
  /** Empty: a direct execution. */
  readonly shellId: string;
  readonly fingerprint: string;
  readonly summary: string;
  readonly timeoutMs: number | undefined;
  readonly inputOpen: boolean;
  readonly terminal: boolean;
  /** How long its text is, about. */
  readonly textBytes: number;
  /** Whether its text lies in a file of its own. */
  readonly scripted: boolean;
  readonly keptBytes: number;
  readonly acceptedMs: number;
}

/** How to start it: a process of its own, or a text for its shell. */
export interface Order {
  startSpec(): StartSpec;
  text(): Buffer;
}
