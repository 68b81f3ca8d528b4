import { timestampMs } from '@bufbuild/protobuf/wkt';
import type { ExecuteRequest } from '../../../gen/assay/v1/execution_pb.js';
import type { JournalRecord } from '../../../gen/assay/worker/v1/worker_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { NestCgroup } from '../cgroup/execution-cgroup.ts';
import { type GuestFrames, GuestViolation } from '../guest/frame.ts';
import { createShells, type ShellLimits, type Shells } from '../shell/shells.ts';
import { acceptRequest, fingerprintOf, type Surroundings, textBytesOf } from './accept.ts';
import { encodeAccepted } from './command-record.ts';
import { Execution } from './execution.ts';
import type { ExecutionHost } from './execution-spec.ts';
import { createFrozenTime } from './frozen-time.ts';
import { createGuestNumbers } from './guest-numbers.ts';
import { createNests } from './nests.ts';

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
  /** How many have not ended. */
  readonly running: number;
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
  records: readonly JournalRecord[],
  limits: ExecutionLimits,
): Executions {
  const byId = new Map<string, Execution>();
  const byNumber = new Map<bigint, Execution>();
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

  const nests = createNests(host.cgroups, host.send, (cgroup) => {
    abandoned.add(cgroup);
    clearSoon();
  });
  const issue = (owner: Parameters<typeof numbers.assign>[1]): bigint => {
    const number = numbers.issue();
    numbers.assign(number, owner);
    return number;
  };
  // A warm sandbox gets its session's id after this.
  const sessionId = () => host.sessionId;
  const shells = createShells({ ...host, sessionId, issue, synced: () => synced, accept: acceptOne }, around, limits);
  const executionHost: ExecutionHost = {
    ...host,
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

  function add(
    number: bigint,
    request: ExecuteRequest,
    accepted: { ms: number; nest: number },
    adopted: boolean,
  ): Execution {
    const { spec, order } = acceptRequest(number, request, accepted, around);
    const execution = new Execution(spec, order, adopted, executionHost, shells.known(spec.shellId));
    byId.set(spec.id, execution);
    byNumber.set(number, execution);
    unsettled.add(execution);
    return execution;
  }

  /** The next place in the order of acceptance. */
  function acceptOne(): bigint {
    if (byId.size + shells.size >= limits.executions) {
      const message = `the session has run ${limits.executions} executions, as many as it remembers; make a new session`;
      throw new DomainError('EXECUTION_QUOTA', message, { limit: String(limits.executions) });
    }
    return ++last;
  }

  function replay(): void {
    const traceparents = new Map<bigint, string>();
    for (const entry of records) {
      const { number, record } = entry;
      if (record.case === 'accepted' && record.value.traceparent !== '') {
        traceparents.set(number, record.value.traceparent);
      }
      replayOne(entry);
    }
    for (const execution of unsettled) {
      if (execution.settled) {
        unsettled.delete(execution);
        host.budget.settled(execution);
        continue;
      }
      execution.follow(traceparents.get(execution.spec.number));
      if (execution.running) shells.known(execution.spec.shellId)?.enqueue(execution);
    }
  }

  function replayOne(entry: JournalRecord): void {
    const { number, record } = entry;
    last = number > last ? number : last;
    frozenTime.restore(record);
    if (record.case === 'accepted' && record.value.request !== undefined) {
      const { request, time, nest, guestNumber } = record.value;
      const execution = add(number, request, { ms: time === undefined ? 0 : timestampMs(time), nest }, true);
      if (guestNumber === 0n) return;
      execution.number = guestNumber;
      numbers.assign(guestNumber, execution);
      return;
    }
    const execution = byNumber.get(number);
    if (execution === undefined) {
      const shell = shells.replay(entry);
      if (record.case === 'shellSent' && shell !== undefined) numbers.assign(record.value.guestNumber, shell);
      return;
    }
    execution.restore(record);
    if (record.case !== 'sent') return;
    numbers.assign(record.value.guestNumber, execution);
    shells.known(execution.spec.shellId)?.restoreSent(execution, record.value);
  }

  function acceptDirect(request: ExecuteRequest, encoded: Uint8Array, traceparent = ''): Execution {
    const number = acceptOne();
    const guestNumber = numbers.issue();
    const ms = Date.now();
    const nest = synced ? nests.take() : undefined;
    const place = { ms, nest: nest?.number ?? 0 };
    host.journal.append(encodeAccepted({ number, request: encoded, ...place, traceparent, guestNumber }));
    const execution = add(number, request, place, false);
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
    if (shell.idle && synced) host.journal.appendSoon(record);
    else host.journal.append(record);
    const execution = add(number, request, place, false);
    execution.follow(traceparent || undefined);
    shell.enqueue(execution);
    return execution;
  }

  /** Forgets what has ended, and frees its cgroup off the caller's path. */
  function settle(execution: Execution): void {
    unsettled.delete(execution);
    host.budget.settled(execution);
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
    if (clearing === undefined) clearing = setTimeout(clear, clearMs).unref();
  }

  function clear(): void {
    clearing = undefined;
    for (const execution of leftovers) {
      execution.removeCgroup().then(
        (gone) => gone && leftovers.delete(execution),
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
    get running() {
      let count = 0;
      for (const execution of unsettled) if (execution.running) count++;
      return count;
    },
    accept(request, encoded, traceparent) {
      const existing = byId.get(request.executionId);
      if (existing !== undefined) {
        if (existing.spec.fingerprint === fingerprintOf(request)) return existing;
        const message = `execution_id ${request.executionId} was used for another command; choose a new one`;
        throw new DomainError('EXECUTION_ID_REUSED', message);
      }
      const accept = request.shellId === '' ? acceptDirect : acceptInShell;
      return accept(request, encoded, traceparent);
    },
    find(id) {
      const execution = byId.get(id);
      if (execution !== undefined) return execution;
      throw new DomainError('EXECUTION_NOT_FOUND', `no execution ${id} in session ${host.sessionId}`);
    },
    at: (number) => byNumber.get(number),
    prepare() {
      prepared = true;
      if (synced) nests.make();
    },
    list(after, count) {
      const found: Execution[] = [];
      for (let number = after + 1n; number <= last && found.length < count; number++) {
        const execution = byNumber.get(number);
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
      if (execution === undefined) return;
      told.add(execution);
      execution.onState(stdout, stderr, received);
    },
    nested: nests.nested,
    spawned(number, pid) {
      const shell = numbers.shell(number);
      if (shell !== undefined) void shell.onSpawned(pid);
      else void numbers.execution(number)?.onSpawned(pid);
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
      for (const execution of byNumber.values()) host.budget.released(execution);
    },
  };
}
