import { timestampMs } from '@bufbuild/protobuf/wkt';
import type { JournalAccepted } from '../../../gen/assay/internal/v1/journal_pb.js';
import type { ExecuteRequest } from '../../../gen/assay/v1/execution_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { NestCgroup } from '../cgroup/execution-cgroup.ts';
import { forget, type GuestFrames, GuestViolation } from '../guest/frame.ts';
import { createShells, type ShellLimits, type Shells } from '../shell/shells.ts';
import { acceptRequest, fingerprintOf, type Surroundings, textBytesOf } from './accept.ts';
import { encodeAccepted } from './command-record.ts';
import { Execution } from './execution.ts';
import type { ExecutionHost } from './execution-spec.ts';
import { ExecutionTable } from './execution-table.ts';
import { createFrozenTime } from './frozen-time.ts';
import { createGuestNumbers } from './guest-numbers.ts';
import type { StoredRecord } from './journal.ts';
import { createNests } from './nests.ts';
import type { OutputHolding } from './output-holding.ts';

/** How long the cgroups of ended executions may stay, so that they go many at a time. */
const clearMs = 100;

/** What bounds the executions of a session. */
export interface ExecutionLimits extends ShellLimits {
  /** Executions and shells that a session remembers. */
  readonly executions: number;
}

/** The executions and shells of one sandbox, and the guest's word on each. */
export interface Executions extends Omit<GuestFrames, 'hello'> {
  readonly shells: Shells;
  /** How many there are, ended ones included. */
  readonly count: number;
  /** How many have not ended. */
  readonly running: number;
  /** What each stream takes of the disk. */
  heldBytes(): Iterable<number>;
  /**
   * Runs the request, or finds the execution that already has its id. `encoded` is the same request as bytes, for the
   * journal; `traceparent`: where it belongs in a trace.
   */
  accept(request: ExecuteRequest, encoded: Uint8Array, traceparent?: string): Execution;
  find(id: string): Execution;
  at(number: bigint): Execution | undefined;
  /** The container is known: processes may be prepared in it from now on. */
  prepare(): void;
  /** Oldest first, from after the given number. */
  list(after: bigint, limit: number): Execution[];
  connected(highest: bigint): void;
  disconnected(): void;
  /** All frames of one read were taken. */
  delivered(): void;
  freeze(): void;
  thaw(): void;
  heartbeat(): void;
  /** The sandbox is gone: what has not ended never will. */
  lose(message: string): void;
  /** This process is about to end; the executions go on. */
  failReaders(error: DomainError): void;
  /** Nothing of it is on this worker's disk any more, or is this process's to count. */
  release(): void;
}

export function createExecutions(
  host: Omit<ExecutionHost, 'frozenTime' | 'issue' | 'stored' | 'settled' | 'ended' | 'giveBack'>,
  around: Surroundings,
  records: Iterable<StoredRecord>,
  limits: ExecutionLimits,
): Executions {
  const unsettled = new Set<Execution>();
  const stored = new Set<Execution>();
  /** Ended, with processes left in their cgroups; looked at again when the next one ends. */
  const leftovers = new Set<Execution>();
  /** Of nests that were given up. */
  const abandoned = new Set<NestCgroup>();
  /** Those that the guest has mentioned since it connected. */
  const told = new Set<Execution>();
  const numbers = createGuestNumbers();
  const frozenTime = createFrozenTime(host.journal);
  let last = 0n;
  let clearing: NodeJS.Timeout | undefined;
  let synced = false;
  let prepared = false;

  const { boundary } = host;
  const abandon = (cgroup: NestCgroup): void => {
    abandoned.add(cgroup);
    clearSoon();
  };
  const nests = createNests(host.cgroups, host.send, abandon, boundary);
  const issue = (owner: Parameters<typeof numbers.assign>[1]): bigint => {
    const number = numbers.issue();
    numbers.assign(number, owner);
    return number;
  };
  // A warm sandbox gets its session's id after this.
  const sessionId = () => host.sessionId;
  const namesOf = (executionId: string) => ({ session_id: host.sessionId, execution_id: executionId });
  const shells = createShells({ ...host, sessionId, issue, synced: () => synced, accept: acceptOne }, around, limits);
  const executionHost: ExecutionHost = {
    ...host,
    get project() {
      return host.project;
    },
    get sessionId() {
      return host.sessionId;
    },
    frozenTime,
    issue,
    stored: (execution) => {
      stored.add(execution);
    },
    settled: settle,
    ended: () => {
      if (prepared) nests.make();
    },
    giveBack: nests.giveBack,
  };

  const table = new ExecutionTable({
    ...{ memory: host.memory, budget: host.budget, journal: host.journal, journalPath: host.journalPath },
    get project() {
      return host.project;
    },
    make({ number, record }, holding) {
      if (record.case !== 'accepted' || record.value.request === undefined) {
        throw new Error(`the journal of ${host.sessionId} has no acceptance of execution ${number} in its place`);
      }
      return construct(number, record.value.request, placeOf(record.value), true, holding);
    },
    evicted(execution) {
      numbers.retire(execution);
      told.delete(execution);
    },
  });

  function construct(
    number: bigint,
    request: ExecuteRequest,
    accepted: { ms: number; nest: number },
    adopted: boolean,
    holding: OutputHolding,
  ): Execution {
    const { spec, order } = acceptRequest(number, request, accepted, around);
    return new Execution(spec, order, adopted, executionHost, holding, shells.known(spec.shellId));
  }

  function add(
    number: bigint,
    request: ExecuteRequest,
    accepted: { ms: number; nest: number; position: number },
    adopted: boolean,
  ): Execution {
    const execution = construct(number, request, accepted, adopted, table.holding(number));
    execution.positions.accepted = accepted.position;
    table.add(execution);
    unsettled.add(execution);
    return execution;
  }

  /** The next place in the order of acceptance. */
  function acceptOne(): bigint {
    if (table.size + shells.size >= limits.executions) {
      const message = `the session has run ${limits.executions} executions, as many as it remembers (ASSAY_EXECUTIONS_PER_SESSION); make a new session`;
      throw new DomainError('EXECUTION_QUOTA', message, { limit: String(limits.executions) });
    }
    return ++last;
  }

  function replay(): void {
    const traceparents = new Map<bigint, string>();
    for (const stored of records) {
      const { number, record } = stored.entry;
      if (record.case === 'accepted' && record.value.traceparent !== '') {
        traceparents.set(number, record.value.traceparent);
      }
      const execution = replayOne(stored);
      if (execution?.settled && unsettled.delete(execution)) {
        traceparents.delete(number);
        execution.input.close();
        execution.holding.settled(execution.endedMs);
        table.settled(execution);
      }
    }
    for (const execution of unsettled) {
      execution.follow(traceparents.get(execution.spec.number));
      if (execution.running) shells.known(execution.spec.shellId)?.enqueue(execution);
    }
  }

  /** Returns the execution that the record is about, if it is one's. */
  function replayOne({ entry, position }: StoredRecord): Execution | undefined {
    const { number, record } = entry;
    last = number > last ? number : last;
    frozenTime.restore(record);
    if (record.case === 'accepted' && record.value.request !== undefined) {
      const { request, guestNumber } = record.value;
      const execution = add(number, request, { ...placeOf(record.value), position }, true);
      if (guestNumber === 0n) return execution;
      execution.number = guestNumber;
      numbers.assign(guestNumber, execution);
      return execution;
    }
    const execution = table.at(number);
    if (execution === undefined) {
      const shell = shells.replay(entry);
      if (record.case === 'shellSent' && shell !== undefined) numbers.assign(record.value.guestNumber, shell);
      return undefined;
    }
    execution.restore(record, position);
    if (record.case !== 'sent') return execution;
    numbers.assign(record.value.guestNumber, execution);
    shells.known(execution.spec.shellId)?.restoreSent(execution, record.value);
    return execution;
  }

  function acceptDirect(request: ExecuteRequest, encoded: Uint8Array, traceparent = ''): Execution {
    const number = acceptOne();
    const guestNumber = numbers.issue();
    const ms = Date.now();
    const nest = synced ? nests.take() : undefined;
    const place = { ms, nest: nest?.number ?? 0 };
    const record = encodeAccepted({ number, request: encoded, ...place, traceparent, guestNumber });
    const position = host.journal.append(record);
    const execution = add(number, request, { ...place, position }, false);
    execution.number = guestNumber;
    numbers.assign(guestNumber, execution);
    execution.follow(traceparent || undefined);
    if (synced) execution.begin(nest);
    return execution;
  }

  function acceptInShell(request: ExecuteRequest, encoded: Uint8Array, traceparent = ''): Execution {
    const shell = shells.seat(request.shellId, textBytesOf(request));
    const number = acceptOne();
    const place = { ms: Date.now(), nest: 0 };
    const record = encodeAccepted({ number, request: encoded, ...place, traceparent, guestNumber: 0n });
    // One that runs at once is written together with the news that it was sent.
    const position = shell.idle && synced ? host.journal.appendSoon(record) : host.journal.append(record);
    const execution = add(number, request, { ...place, position }, false);
    execution.follow(traceparent || undefined);
    shell.enqueue(execution);
    return execution;
  }

  /** Forgets what has ended, and frees its cgroup off the caller's path. */
  function settle(execution: Execution): void {
    unsettled.delete(execution);
    execution.holding.settled(execution.endedMs);
    if (execution.spec.scripted) around.removeScript(execution.spec.number);
    leftovers.add(execution);
    clearSoon();
  }

  /** Asked only when something could not be started, which may be because of them. */
  function leftBehind(): string[] {
    const ended = [...unsettled, ...leftovers].filter((execution) => execution.leavesProcesses);
    return ended.map(({ spec }) => spec.id);
  }

  function clearSoon(): void {
    if (clearing === undefined) clearing = setTimeout(boundary.guard(clear), clearMs).unref();
  }

  function clear(): void {
    clearing = undefined;
    for (const execution of leftovers) {
      execution.removeCgroup().then(
        (gone) => gone && leftovers.delete(execution) && table.settled(execution),
        () => {},
      );
    }
    for (const cgroup of abandoned) {
      cgroup.remove().then(
        (gone) => (gone ? abandoned.delete(cgroup) : clearSoon()),
        () => {},
      );
    }
  }

  replay();

  return {
    shells,
    get count() {
      return table.size;
    },
    heldBytes: () => table.heldBytes(),
    get running() {
      let count = 0;
      for (const execution of unsettled) if (execution.running) count++;
      return count;
    },
    accept(request, encoded, traceparent) {
      const existing = table.find(request.executionId);
      if (existing !== undefined) {
        if (existing.spec.fingerprint === fingerprintOf(request)) return existing;
        const message = `execution_id ${request.executionId} was used for another command; choose a new one`;
        throw new DomainError('EXECUTION_ID_REUSED', message, namesOf(request.executionId));
      }
      const accept = request.shellId === '' ? acceptDirect : acceptInShell;
      return accept(request, encoded, traceparent);
    },
    find(id) {
      const execution = table.find(id);
      if (execution !== undefined) return execution;
      throw new DomainError('EXECUTION_NOT_FOUND', `no execution ${id} in session ${host.sessionId}`, namesOf(id));
    },
    at: (number) => table.at(number),
    prepare() {
      prepared = true;
      if (synced) nests.make();
    },
    list(after, count) {
      const found: Execution[] = [];
      for (let number = after + 1n; number <= last && found.length < count; number++) {
        const execution = table.at(number);
        if (execution !== undefined) found.push(execution);
      }
      return found;
    },
    connected(seen) {
      if (seen > numbers.last) throw new GuestViolation(`execution ${seen} was never started`);
      synced = false;
      nests.drop();
      told.clear();
      shells.connected();
    },
    disconnected() {
      synced = false;
      for (const execution of unsettled) execution.disconnected();
      nests.drop();
    },
    synced() {
      synced = true;
      // What the guest did not mention it never heard of, since it forgets nothing before it is told to.
      for (const execution of unsettled) if (execution.number !== 0n && !told.has(execution)) execution.beginAgain();
      shells.synced();
      if (prepared) nests.make();
    },
    state(number, stdout, stderr, received) {
      const execution = numbers.execution(number);
      // The guest may not have heard that it can forget it.
      if (execution === undefined && numbers.retired(number)) host.send(forget(number));
      if (execution === undefined) return;
      told.add(execution);
      execution.onState(stdout, stderr, received);
    },
    nested: nests.nested,
    spawned(number, pid) {
      const shell = numbers.shell(number);
      const placing = shell === undefined ? numbers.execution(number)?.onSpawned(pid) : shell.onSpawned(pid);
      if (placing !== undefined) boundary.own(placing);
    },
    started: (number) => numbers.execution(number)?.onStarted(),
    failed(number, step, errno) {
      const shell = numbers.shell(number);
      if (shell !== undefined) shell.onFailed(step, errno);
      else numbers.execution(number)?.onFailed(step, errno, leftBehind());
    },
    output: (number, stream, offset, data) => numbers.execution(number)?.onOutput(stream, offset, data),
    inputAck(number, received, written, ended, closed) {
      const execution = numbers.execution(number);
      if (execution === undefined) return;
      const { input, awaiting } = execution;
      const before = input.received;
      input.acknowledged(received, written, ended, closed);
      host.meter.inputBytes += input.received - before;
      if (input.received > before || ended || closed) awaiting.over();
    },
    awaiting: (number, kind) => numbers.execution(number)?.onAwaiting(kind),
    exit: (number, exit) => numbers.execution(number)?.onExit(exit),
    closed: (number, stdout, stderr) => numbers.execution(number)?.onClosed(stdout, stderr),
    unknown: (number) => numbers.execution(number)?.beginAgain(),
    shell: (number, pid, opened) => numbers.shell(number)?.onShell(pid, opened),
    delivered() {
      for (const execution of stored) execution.delivered();
      stored.clear();
    },
    freeze() {
      frozenTime.freeze();
      for (const execution of unsettled) execution.freeze();
    },
    thaw() {
      frozenTime.thaw();
      for (const execution of unsettled) execution.thaw();
    },
    heartbeat() {
      for (const execution of unsettled) execution.heartbeat();
    },
    lose(message) {
      shells.lose(new DomainError('SANDBOX_LOST', message));
      for (const execution of unsettled) execution.lose(message);
    },
    failReaders(error) {
      shells.lose(error);
      for (const execution of unsettled) execution.failReaders(error);
    },
    release() {
      table.release();
    },
  };
}

function placeOf({ time, nest }: JournalAccepted): { ms: number; nest: number } {
  return { ms: time === undefined ? 0 : timestampMs(time), nest };
}
