import { create } from '@bufbuild/protobuf';
import { type JournalRecord, JournalRecordSchema } from '../../../gen/assay/internal/v1/journal_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { ContainerCgroups, ExecutionCgroup } from '../cgroup/execution-cgroup.ts';
import { encodeSent } from '../execution/command-record.ts';
import type { Doom, DoomReason } from '../execution/doom.ts';
import type { Execution } from '../execution/execution.ts';
import type { Journal } from '../execution/journal.ts';
import { shellRefusalOf } from '../execution/refusal.ts';
import { type KillsAround, killsAround, type Usage } from '../execution/result.ts';
import type { Seat } from '../execution/seat.ts';
import type { FailureBoundary } from '../failure-boundary.ts';
import { closeShell, failedStep, forget, type GuestExit, go, openShell } from '../guest/frame.ts';
import { closedRecord, openedRecord, restoreTold, type ToldOfShell } from '../log/shell-event.ts';
import { clearCgroup } from './shell-clearing.ts';
import { beginShellDoom } from './shell-doom.ts';
import type { ShellSpec } from './shell-spec.ts';

/** What a shell needs from its sandbox. */
export interface ShellHost {
  readonly journal: Journal;
  readonly boundary: FailureBoundary;
  cgroups(): ContainerCgroups | undefined;
  memoryKills(): number | undefined;
  send(frame: Buffer): void;
  /** Whether the guest is there and has told all it knows. */
  synced(): boolean;
  /** The next number between worker and guest. */
  issue(owner: Shell | Execution): bigint;
  /** It could not be opened: nobody will find it. */
  neverOpened(shell: Shell): void;
}

/** How soon to try again what could not be recorded. */
const againMs = 1_000;

/** ABSENT: the guest has none, and must be asked. OPENING: it was asked, or opens it again by itself. */
type Presence = 'absent' | 'opening' | 'open';

interface Baseline {
  readonly cpuMicros: number;
  readonly oomKills: number;
}

/**
 * One shell: what the guest said of it, and the commands that wait for it. The guest opens it again when it ends; it runs
 * one command at a time, in the order in which they came.
 */
export class Shell implements Seat {
  readonly spec: ShellSpec;
  /** What the guest calls it; 0 until it was told. */
  number = 0n;
  /** How often it was opened. */
  opened = 0;
  current: Execution | undefined;
  /** It takes no more commands. */
  closing = false;
  /** Nothing of it is left. */
  closed = false;
  private readonly host: ShellHost;
  private readonly queue: Execution[] = [];
  private presence: Presence = 'absent';
  private openedBefore = 0;
  /** How often it had been opened when the last command began. */
  private openedAtLast = 1;
  private baseline: Baseline | undefined;
  private cgroup: ExecutionCgroup | undefined;
  private told = false;
  private again: NodeJS.Timeout | undefined;
  private readonly logged: ToldOfShell = { timesOpened: 0, closed: false };
  private readonly ready = Promise.withResolvers<void>();
  private readonly gone = Promise.withResolvers<void>();

  constructor(spec: ShellSpec, host: ShellHost) {
    this.spec = spec;
    this.host = host;
    this.ready.promise.catch(() => {});
  }

  get queued(): number {
    return this.queue.length;
  }

  get queuedBytes(): number {
    return this.queue.reduce((sum, { spec }) => sum + spec.textBytes, 0);
  }

  /** Whether a command would run at once. */
  get idle(): boolean {
    return this.presence === 'open' && !this.closing && this.current === undefined && this.queue.length === 0;
  }

  /** Takes up what the journal of an earlier process says. */
  restore(record: JournalRecord['record']): void {
    if (record.case === 'shellSent') {
      this.number = record.value.guestNumber;
      this.openedBefore = record.value.earlierOpenCount;
      this.presence = 'opening';
    }
    if (record.case === 'event') restoreTold(this.logged, record.value);
    if (record.case === 'shellClosing') this.closing = true;
    if (record.case === 'shellClosed') this.endAsClosed();
  }

  /** A command of an earlier process was sent to the guest. */
  restoreSent(execution: Execution, sent: { shellOpenCount: number; cpuMicros: bigint; oomKillCount: number }): void {
    execution.shellReopened ||= sent.shellOpenCount > this.openedAtLast;
    this.openedAtLast = sent.shellOpenCount;
    this.opened = Math.max(this.opened, sent.shellOpenCount);
    this.baseline = { cpuMicros: Number(sent.cpuMicros), oomKills: sent.oomKillCount };
  }

  /** Gives a command to the shell, after those it has. */
  enqueue(execution: Execution): void {
    if (execution.number === 0n) this.queue.push(execution);
    else this.current = execution;
    this.next();
  }

  /** Resolves when it takes commands; rejects if it cannot be opened. */
  whenOpen(): Promise<void> {
    return this.ready.promise;
  }

  open(): void {
    if (this.presence !== 'absent' || this.closing || !this.host.synced()) return;
    const number = this.host.issue(this);
    const sent = { case: 'shellSent', value: { guestNumber: number, earlierOpenCount: this.opened } };
    if (!this.recorded(this.recordOf(sent))) return;
    this.number = number;
    this.presence = 'opening';
    this.openedBefore = this.opened;
    this.cgroup?.release();
    this.cgroup = this.host.cgroups()?.execution(this.number);
    this.host.send(openShell(this.number, { ...this.spec.start, gated: this.cgroup !== undefined }));
  }

  /** Ends it with all it started; the commands that wait do not run. */
  close(): Promise<void> {
    if (!this.closing) {
      this.closing = true;
      this.note({ case: 'shellClosing', value: {} });
      this.current?.closeWithShell();
      for (const execution of this.queue.splice(0)) {
        execution.dismiss('its shell was closed before it ran; nothing was run');
      }
      const { id } = this.spec;
      this.ready.reject(
        new DomainError('SHELL_CLOSED', `shell ${id} was closed while it was being opened`, { shell_id: id }),
      );
      this.demandEnd();
    }
    return this.gone.promise;
  }

  /** The sandbox or this process is ending: nothing more is done here. */
  lose(error: DomainError): void {
    this.closing = true;
    this.closed = true;
    this.cgroup?.release();
    this.ready.reject(error);
    this.gone.resolve();
  }

  connected(): void {
    this.told = false;
  }

  /** The guest has told all it knows; what it did not mention, it never heard of. */
  synced(): void {
    if (this.closed) return;
    if (!this.told) this.presence = 'absent';
    if (this.closing) this.demandEnd();
    else this.open();
    this.next();
  }

  async onSpawned(pid: number): Promise<void> {
    this.told = true;
    this.cgroup ??= this.host.cgroups()?.execution(this.number);
    await this.cgroup?.place(pid);
    this.host.send(go(this.number));
  }

  onShell(pid: number, opened: number): void {
    this.told = true;
    if (pid === 0) {
      this.presence = 'absent';
      if (this.closing) this.demandEnd();
      else this.next();
      return;
    }
    this.cgroup ??= this.host.cgroups()?.existing(this.number, 0);
    this.presence = 'open';
    this.opened = this.openedBefore + opened;
    this.log(openedRecord(this.spec, this.opened, this.logged));
    this.ready.resolve();
    // It ended by itself in the moment a command was sent, which finds it new.
    const sent = this.current?.startedMs === undefined ? this.current : undefined;
    if (sent !== undefined && this.opened > this.openedAtLast) {
      sent.shellReopened = true;
      this.openedAtLast = this.opened;
    }
    if (this.closing) this.demandEnd();
    else this.next();
  }

  onFailed(step: number, errno: number): void {
    this.told = true;
    this.presence = 'absent';
    this.host.send(forget(this.number));
    const error = shellRefusalOf(step, errno);
    if (this.opened === 0) {
      this.neverOpen(error);
      return;
    }
    // One that could not be opened again is tried for every command, until what is in its way is gone.
    this.queue.shift()?.refuse(error);
    this.next();
  }

  withdraw(execution: Execution): boolean {
    const at = this.queue.indexOf(execution);
    if (at < 0) return false;
    this.queue.splice(at, 1);
    return true;
  }

  usage(): Usage | KillsAround | undefined {
    if (this.cgroup === undefined) return killsAround(this.baseline?.oomKills, this.host.memoryKills());
    const now = this.cgroup.usage();
    if (now === undefined || this.baseline === undefined) return now;
    return {
      cpuMicros: Math.max(0, now.cpuMicros - this.baseline.cpuMicros),
      peakMemoryBytes: now.peakMemoryBytes,
      oomKills: Math.max(0, now.oomKills - this.baseline.oomKills),
    };
  }

  doom(execution: Execution, reason: DoomReason): Doom {
    const { number, startedMs = Date.now() } = execution;
    return beginShellDoom(reason, { number, startedMs, cgroup: this.cgroup, send: (frame) => this.host.send(frame) });
  }

  turnedAway(execution: Execution, step?: number): boolean {
    if (this.closing) return false;
    if (this.current === execution) this.current = undefined;
    this.queue.unshift(execution);
    if (step === failedStep.noShell) this.presence = 'absent';
    // The guest says SHELL when there is one again; if it has said so already, now is the time.
    if (step === failedStep.shellBusy && this.opened === this.openedAtLast) this.presence = 'opening';
    if (step !== undefined) setImmediate(this.host.boundary.guard(() => this.next()));
    return true;
  }

  left(execution: Execution, exit: GuestExit | undefined): void {
    this.withdraw(execution);
    if (this.current !== execution) return;
    this.current = undefined;
    // It may have been opened again before the end of the command was told.
    if (exit?.shellEnded && this.presence === 'open' && this.opened === this.openedAtLast) this.presence = 'opening';
    this.next();
  }

  /** Runs the next command, if there is one and the shell is there. */
  private next(): void {
    if (this.closing || this.current !== undefined || this.queue.length === 0 || !this.host.synced()) return;
    if (this.presence === 'absent') this.open();
    if (this.presence !== 'open') return;
    const execution = this.queue[0] as Execution;
    const now = Date.now();
    const number = this.host.issue(execution);
    this.cgroup?.resetPeak();
    const { cpuMicros, oomKills } = this.cgroup?.usage() ?? { cpuMicros: 0, oomKills: this.host.memoryKills() ?? 0 };
    const sent = encodeSent({
      number: execution.spec.number,
      guestNumber: number,
      ms: now,
      shellOpened: this.opened,
      cpuMicros,
      oomKills,
    });
    if (!this.recorded(sent)) return;
    this.queue.shift();
    this.current = execution;
    this.baseline = { cpuMicros, oomKills };
    execution.shellReopened ||= this.opened > this.openedAtLast;
    this.openedAtLast = this.opened;
    execution.beginInShell(number, now, this.number);
  }

  /** Tells the guest to end it, and goes on once it has said so. */
  private demandEnd(): void {
    if (this.closed) return;
    if (this.presence !== 'absent') {
      this.host.send(closeShell(this.number));
      return;
    }
    const cleared = (): void => {
      if (this.closed) return;
      this.endAsClosed();
      // First, so that it is told once: a worker that dies in between closes it again, and finds it told.
      this.log(closedRecord(this.spec, this.logged));
      this.note({ case: 'shellClosed', value: {} });
    };
    clearCgroup(this.cgroup, this.host.boundary.guard(cleared));
  }

  private endAsClosed(): void {
    this.closing = true;
    this.closed = true;
    this.presence = 'absent';
    this.gone.resolve();
  }

  private neverOpen(error: DomainError): void {
    this.closing = true;
    for (const execution of this.queue.splice(0)) execution.refuse(error);
    this.note({ case: 'shellClosed', value: { neverOpened: true } });
    this.endAsClosed();
    this.ready.reject(error);
    clearCgroup(this.cgroup, () => {});
    this.host.neverOpened(this);
  }

  private log(record: JournalRecord | undefined): void {
    if (record !== undefined) this.host.journal.note(record);
  }

  private note(record: { case: string; value: object }): void {
    this.host.journal.note(this.recordOf(record));
  }

  private recordOf(record: { case: string; value: object }): JournalRecord {
    return create(JournalRecordSchema, { number: this.spec.number, record } as never) as JournalRecord;
  }

  /** Whether what the guest is to be told is recorded, as it must be before; if it could not be, all is tried again. */
  private recorded(record: JournalRecord | Uint8Array): boolean {
    try {
      this.host.journal.append(record);
      return true;
    } catch {
      const again = (): void => {
        this.again = undefined;
        this.open();
        this.next();
      };
      this.again ??= setTimeout(this.host.boundary.guard(again), againMs).unref();
      return false;
    }
  }
}
