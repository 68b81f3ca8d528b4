import { durationMs, timestampMs } from '@bufbuild/protobuf/wkt';
import type { JournalRecord } from '../../../gen/assay/internal/v1/journal_pb.js';
import { EndReason, type ExecutionResult, OutputStream } from '../../../gen/assay/v1/execution_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import { isReason } from '../../shared/error-reason.ts';
import {
  failedStep,
  forget,
  type GuestExit,
  GuestViolation,
  go,
  type Stream,
  shellStart,
  signal,
  signalScope,
  start,
} from '../guest/frame.ts';
import { createAwaiting } from './awaiting.ts';
import { beginDoom, type DoomReason } from './doom.ts';
import { Ending } from './ending.ts';
import { ExecutionLog, type ExecutionPositions } from './execution-log.ts';
import type { ExecutionHost, ExecutionSpec, Order } from './execution-spec.ts';
import { type ExecutionTrace, traceExecution } from './execution-trace.ts';
import { createInput, type Input } from './input.ts';
import type { Nest } from './nests.ts';
import type { OutputHolding } from './output-holding.ts';
import { Place } from './place.ts';
import { refusalOf } from './refusal.ts';
import { endOf, inShell, lostResult, notRunResult, resultOf } from './result.ts';
import type { Seat } from './seat.ts';
import type { Spool } from './spool.ts';
import { Streams } from './streams.ts';
import { createSubscription, type EventSink, type Readable, type Subscription } from './subscription.ts';
import { createTerminal, type Terminal } from './terminal.ts';

/** How often an execution is offered to a guest that does not take it. */
const attemptsLimit = 10;

/** How long the news of a start may wait for company. */
const startedDelayMs = 2;

/**
 * One command: what the guest said of it, who reads it, and how it is ended. It knows nothing of calls, and everything can
 * be told to it twice.
 */
export class Execution implements Readable {
  readonly spec: ExecutionSpec;
  readonly holding: OutputHolding;
  readonly input: Input;
  readonly terminal: Terminal;
  readonly awaiting = createAwaiting();
  startedMs: number | undefined;
  result: ExecutionResult | undefined;
  refusal: DomainError | undefined;
  drained = false;
  /** What to tell the guest, until it has started. */
  private order: Order | undefined;
  /** What the guest calls it; 0 until it was told. */
  number = 0n;
  /** Whether its shell was opened anew since the command before it. */
  shellReopened = false;
  readonly host: ExecutionHost;
  readonly seat: Seat | undefined;
  /** Whether an earlier process accepted it, and may have seen it start. */
  private readonly adopted: boolean;
  private readonly streams: Streams;
  private readonly place: Place;
  private readonly log: ExecutionLog;
  private readonly ending: Ending;
  private startedNews: NodeJS.Timeout | undefined;
  private exit: GuestExit | undefined;
  private trace: ExecutionTrace | undefined;
  private sentMs: number;
  private attempts = 0;

  constructor(
    spec: ExecutionSpec,
    order: Order,
    adopted: boolean,
    host: ExecutionHost,
    holding: OutputHolding,
    seat?: Seat,
  ) {
    this.spec = spec;
    this.holding = holding;
    this.order = order;
    this.adopted = adopted;
    this.host = host;
    this.seat = seat;
    this.sentMs = spec.acceptedMs;
    this.ending = new Ending(host.frozenTime);
    this.place = new Place(host);
    this.log = new ExecutionLog(host.journal, spec.number);
    this.input = createInput(
      () => this.number,
      spec.inputOpen,
      (frame) => host.send(frame),
    );
    this.terminal = createTerminal(
      () => this.number,
      spec.terminal,
      (frame) => host.send(frame),
    );
    this.streams = new Streams(spec, adopted, host, () => this.number, holding);
  }

  get id(): string {
    return this.spec.id;
  }

  /** Whether nothing more will come from the guest. */
  get settled(): boolean {
    return this.refusal !== undefined || (this.result !== undefined && this.drained);
  }

  get running(): boolean {
    return this.result === undefined && this.refusal === undefined;
  }

  /** From here on its steps are told to whoever collects traces, if anybody does. */
  follow(traceparent: string | undefined): void {
    const { tracing, sessionId } = this.host;
    if (tracing === undefined || !this.running) return;
    const names = { sessionId, executionId: this.id };
    this.trace = traceExecution(tracing, traceparent, this.spec.acceptedMs, names);
  }

  spool(stream: Stream): Spool {
    return this.streams.spool(stream);
  }

  /** Where the journal has it. */
  get positions(): ExecutionPositions {
    return this.log.positions;
  }

  /** Whether it was offered to the guest more than once. */
  get attempted(): boolean {
    return this.attempts > 0;
  }

  /** Whether it has ended and nobody reads it. */
  get idle(): boolean {
    return this.settled && this.streams.unread;
  }

  get endedMs(): number {
    return this.result?.endTime === undefined ? 0 : timestampMs(this.result.endTime);
  }

  trim(keep: { head: number; tail: number }): void {
    for (const stream of [1, 2] as const) {
      this.spool(stream).trim(keep, (from, to) => this.log.trimmed(stream, from, to));
    }
  }

  /** Whether it waits for its shell. */
  get waiting(): boolean {
    return this.seat !== undefined && this.number === 0n && this.running;
  }

  /** Asks the guest to start it, in the process that was prepared for it if there is one. */
  begin(nest?: Nest): void {
    if (this.order === undefined) return;
    this.place.take(this.number, nest);
    const gates = { gated: this.place.cgroup !== undefined, nest: nest?.number ?? 0 };
    this.host.send(start(this.number, { ...this.order.startSpec(), ...gates }));
  }

  /** Its shell is free: it goes to the guest under this number. */
  beginInShell(number: bigint, sentMs: number, shell: bigint): void {
    if (this.order === undefined) return;
    this.number = number;
    this.sentMs = sentMs;
    this.host.send(shellStart(number, shell, this.spec.inputOpen, this.order.text()));
    // Input that came while it waited was given to nobody.
    this.input.recover(this.input.received);
  }

  /** The guest never heard of it: what was sent is lost with its connection, or with the process it was meant for. */
  beginAgain(): void {
    if (!this.running) return;
    if (this.startedMs !== undefined || ++this.attempts > attemptsLimit) {
      this.lose('the sandbox does not know this execution, or how it ended');
      return;
    }
    if (this.seat !== undefined) {
      this.number = 0n;
      if (!this.seat.turnedAway(this)) this.dismiss('its shell was closed before it ran; nothing was run');
      return;
    }
    this.number = this.host.issue(this);
    this.sentMs = Date.now();
    this.log.sent(this.number, this.sentMs);
    this.begin();
    // What was sent of its input is lost too.
    this.input.recover(this.input.received);
  }

  /** Takes up what the journal of an earlier process says. */
  restore(record: JournalRecord['record'], position: number): void {
    this.log.restore(record, position);
    if (record.case === 'started') this.startedMs = Number(record.value.timeMs);
    if (record.case === 'sent') {
      this.number = record.value.guestNumber;
      this.sentMs = record.value.time === undefined ? this.sentMs : timestampMs(record.value.time);
    }
    if (record.case === 'doomed') this.ending.reason = record.value.reason as DoomReason;
    if (record.case === 'finished') {
      this.result = record.value.result;
      this.startedMs = record.value.startTime === undefined ? undefined : timestampMs(record.value.startTime);
    }
    if (record.case === 'refused') {
      const { reason, message } = record.value;
      this.refusal = new DomainError(isReason(reason) ? reason : 'PROGRAM_NOT_STARTED', message);
    }
    if (record.case === 'drained') {
      this.streams.complete(Number(record.value.stdoutBytes), Number(record.value.stderrBytes));
      this.drained = true;
    }
    if (record.case === 'trimmed') {
      const { stream, from, to } = record.value;
      this.spool(stream === OutputStream.STDERR ? 2 : 1).forgo(Number(from), Number(to));
    }
    if (this.result !== undefined) this.order = undefined;
  }

  /** The guest is away. */
  disconnected(): void {
    this.streams.disconnected();
  }

  onState(stdoutAcked: number, stderrAcked: number, inputReceived: number): void {
    if (this.drained) return;
    if (this.seat === undefined) this.place.adopt(this.number, this.spec.nest);
    this.streams.recover(stdoutAcked, stderrAcked);
    this.input.recover(inputReceived);
    this.terminal.remind();
  }

  /** The process waits: into its cgroup with it, then it may go. */
  async onSpawned(pid: number): Promise<void> {
    const { cgroup } = this.place;
    const placed = cgroup === undefined || (await cgroup.place(pid));
    if (!placed && this.running) this.host.unplaced(this.spec.number);
    this.host.send(go(this.number));
  }

  onStarted(): void {
    if (this.startedMs === undefined) {
      this.startedMs = this.adopted ? this.sentMs : Date.now();
      this.trace?.started();
    }
    this.order = undefined;
    this.log.started(this.startedMs);
    this.terminal.remind();
    this.armDeadline();
    // The worker that decided to end it may have died before it could.
    if (this.running) this.beginDoom();
    // Most commands print or end within this time; then one write carries it all.
    this.startedNews = setTimeout(
      this.host.boundary.guard(() => this.streams.wake()),
      startedDelayMs,
    ).unref();
  }

  onAwaiting(kind: number): void {
    if (this.running && this.awaiting.seen(kind, this.input.received)) this.streams.wake();
  }

  /** `leftBehind`: executions that have ended and whose processes have not. */
  onFailed(step: number, errno: number, leftBehind: readonly string[]): void {
    if (this.startedMs !== undefined || this.result !== undefined) throw new GuestViolation('FAILED after STARTED');
    // Its shell ended in the moment it was sent: it waits until that is open again.
    if ((step === failedStep.noShell || step === failedStep.shellBusy) && ++this.attempts <= attemptsLimit) {
      const { number } = this;
      if (this.seat?.turnedAway(this, step)) {
        this.number = 0n;
        this.host.send(forget(number));
        return;
      }
    }
    // Whoever kills all processes of a session kills those that wait for a command too.
    if (step === failedStep.preparedGone && this.attempts < attemptsLimit) {
      this.host.send(forget(this.number));
      this.beginAgain();
      return;
    }
    this.refuse(refusalOf(step, errno, leftBehind));
  }

  /** Nothing was run. */
  refuse(refusal: DomainError): void {
    if (this.refusal === undefined) {
      this.refusal = refusal;
      this.trace?.refused(refusal);
      this.host.meter.executionEnded('NOT_STARTED', undefined);
      this.log.refused(refusal);
      this.seat?.left(this, undefined);
    }
    this.streams.wake();
    this.forgetIfSettled();
  }

  /** It waited and will not run. */
  dismiss(message: string): void {
    this.input.close();
    this.streams.complete(0, 0);
    this.drained = true;
    this.log.drained(0, 0);
    this.finish(notRunResult(message));
  }

  onOutput(stream: Stream, offset: number, data: Buffer): void {
    if (this.startedMs === undefined || this.drained) throw new GuestViolation('OUTPUT outside of a run');
    this.host.meter.outputBytes[stream] += this.streams.take(stream, offset, data);
    this.awaiting.over();
    this.host.stored(this);
  }

  /** The current read from the guest is done: readers may have what was stored, and the guest is told. */
  delivered(): void {
    this.logOutput();
    this.streams.wake();
    this.streams.acknowledge();
  }

  onExit(exit: GuestExit): void {
    // Killed before it could execute its program: it ran as far as it came.
    if (this.startedMs === undefined) this.onStarted();
    if (exit.stdoutBytes > this.streams.total(1) || exit.stderrBytes > this.streams.total(2)) {
      throw new GuestViolation('EXIT before the output it counts');
    }
    endOf(exit.status);
    if (this.exit !== undefined) return;
    this.exit = exit;
    this.trace?.exited(exit);
    this.awaiting.over();
    clearTimeout(this.startedNews);
    this.ending.disarm();
    this.input.close();
    if (this.seat === undefined) this.host.ended();
    if (this.result !== undefined) return;
    if (this.ending.begun) this.ending.programEnded();
    else this.finish(this.resultAs(exit));
  }

  onClosed(stdoutBytes: number, stderrBytes: number): void {
    if (this.exit === undefined && this.result === undefined) throw new GuestViolation('CLOSED before EXIT');
    if (!this.drained) {
      const [stdout, stderr] = [this.streams.total(1), this.streams.total(2)];
      if (stdoutBytes !== stdout || stderrBytes !== stderr) {
        throw new GuestViolation(`CLOSED at ${stdoutBytes}/${stderrBytes}, expected ${stdout}/${stderr}`);
      }
      this.drained = true;
      this.logOutput();
      this.log.drained(stdoutBytes, stderrBytes);
      this.streams.wake();
    }
    this.forgetIfSettled();
  }

  /** The guest was never told, or has forgotten what it never told us: nothing can be known any more. */
  lose(message: string): void {
    if (this.settled) return;
    this.streams.claim(this.log.logged);
    this.ending.stop();
    this.input.close();
    this.drained = true;
    if (this.result !== undefined || this.startedMs === undefined) {
      if (this.result === undefined) {
        this.refusal = new DomainError('SANDBOX_LOST', message);
        this.trace?.refused(this.refusal);
        this.host.meter.executionEnded('NOT_STARTED', undefined);
        this.log.refused(this.refusal);
        this.seat?.left(this, undefined);
      }
      this.logOutput();
      this.streams.wake();
      this.forgetIfSettled();
      return;
    }
    this.finish(lostResult(message, this.streams.total(1), this.streams.total(2)));
  }

  subscribe(sink: EventSink, from: { stdout: number; stderr: number; followBackground: boolean }): Subscription {
    const subscription = createSubscription(this, sink, from);
    this.streams.add(subscription);
    return subscription;
  }

  unsubscribe(subscription: Subscription): void {
    this.streams.remove(subscription);
    this.advanced();
    this.rest();
  }

  advanced(): void {
    if (!this.drained) this.streams.acknowledge();
  }

  heartbeat(): void {
    this.streams.heartbeat();
  }

  failReaders(error: DomainError): void {
    this.ending.stop();
    this.streams.fail(error);
  }

  signal(signo: number): void {
    if (!this.running) throw new DomainError('EXECUTION_ENDED', 'the execution has ended; there is nothing to signal');
    if (this.waiting)
      throw new DomainError('EXECUTION_NOT_RUNNING', 'the execution waits for its shell; it has no process');
    this.host.send(signal(this.number, signo, signalScope.group));
  }

  cancel(): void {
    if (this.running) this.endAs(EndReason.CANCELLED);
    else this.endLeftovers();
  }

  /** Ends the processes that it left in the background. */
  private endLeftovers(): void {
    // Its shell shares one cgroup with all commands: only the guest can tell whose they are, while one holds its streams.
    if (this.seat !== undefined) {
      if (!this.settled) beginDoom(this.number, EndReason.CANCELLED, undefined, (frame) => this.host.send(frame));
      return;
    }
    const { cgroup } = this.place;
    if (cgroup === undefined || !this.leavesProcesses) return;
    // Once they are gone the cgroup may be another execution's.
    const own = (): boolean => this.place.cgroup === cgroup;
    const left = { kill: (signo: number) => (own() ? cgroup.kill(signo) : 0), populated: () => this.leavesProcesses };
    const doom = beginDoom(this.number, EndReason.CANCELLED, left, () => {});
    doom.programEnded();
    doom.whenGone(() => {});
  }

  /** Whether it has ended and processes that it started go on. Those in a shell end with the shell. */
  get leavesProcesses(): boolean {
    return !this.running && this.seat === undefined && this.place.cgroup?.populated() === true;
  }

  /** Its shell is being closed, and it ends with it. */
  closeWithShell(): void {
    if (this.ending.reason === undefined && this.running) this.decideEnd(EndReason.CANCELLED);
  }

  freeze(): void {
    this.ending.freeze();
  }

  thaw(): void {
    this.ending.thaw();
  }

  /** Tries to free the cgroup; false while a process is left in it. */
  removeCgroup(): Promise<boolean> {
    return this.place.remove();
  }

  /** A reader of the log is done with the spool for now. */
  rest(): void {
    if (this.settled) this.streams.rest();
  }

  /** What was stored gets its place in the log. */
  private logOutput(): void {
    this.log.output(1, this.streams.total(1));
    this.log.output(2, this.streams.total(2));
  }

  private armDeadline(): void {
    if (this.spec.timeoutMs === undefined || !this.running) return;
    const elapsed = this.host.frozenTime.runningSince(this.startedMs ?? Date.now());
    this.ending.arm(
      this.spec.timeoutMs - elapsed,
      this.host.boundary.guard((reason) => this.endAs(reason)),
    );
  }

  private endAs(reason: DoomReason): void {
    if (this.ending.reason !== undefined || this.exit !== undefined || !this.running) return;
    if (this.seat?.withdraw(this)) {
      this.dismiss('it was cancelled before it ran; nothing was run');
      return;
    }
    this.decideEnd(reason);
    // One that has not started yet is ended as soon as it has.
    if (this.startedMs !== undefined) this.beginDoom();
  }

  private decideEnd(reason: DoomReason): void {
    this.ending.reason = reason;
    this.log.doomed(reason);
  }

  private beginDoom(): void {
    const { cgroup } = this.place;
    this.ending.begin(
      (reason) =>
        this.seat?.doom(this, reason) ?? beginDoom(this.number, reason, cgroup, (frame) => this.host.send(frame)),
      this.host.boundary.guard(() => {
        if (this.exit !== undefined && this.running) this.finish(this.resultAs(this.exit));
      }),
    );
  }

  private resultAs(exit: GuestExit): ExecutionResult {
    const { reason } = this.ending;
    if (this.seat === undefined) return resultOf(exit, reason, this.place.usage());
    return inShell(resultOf(exit, reason, this.seat.usage()), exit, this.shellReopened, this.seat.closing);
  }

  private finish(result: ExecutionResult): void {
    this.logOutput();
    this.log.finished(result, this.startedMs);
    this.result = result;
    const seconds = result.duration === undefined ? 0 : durationMs(result.duration) / 1_000;
    this.host.meter.executionEnded(EndReason[result.reason], seconds);
    this.trace?.finished(result);
    this.seat?.left(this, this.exit);
    this.streams.wake();
    setImmediate(this.host.boundary.guard(() => this.place.leave()));
    this.forgetIfSettled();
  }

  private forgetIfSettled(): void {
    if (!this.settled) return;
    // Until the journal has it, the guest is the only one who knows.
    this.host.journal.whenWritten(() => {
      if (this.number !== 0n) this.host.send(forget(this.number));
      this.host.settled(this);
    });
    this.streams.rest();
  }
}
