import { create } from '@bufbuild/protobuf';
import { timestampFromMs, timestampMs } from '@bufbuild/protobuf/wkt';
import type { ExecuteRequest } from '../../../gen/assay/v1/execution_pb.js';
import { type JournalRecord, JournalRecordSchema } from '../../../gen/assay/worker/v1/worker_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { NestCgroup } from '../cgroup/execution-cgroup.ts';
import { type GuestFrames, GuestViolation } from '../guest/frame.ts';
import { acceptRequest, fingerprintOf, type Surroundings } from './accept.ts';
import { Execution, type ExecutionHost } from './execution.ts';
import { createNests } from './nests.ts';

/** How long the cgroups of ended executions may stay, so that they go many at a time. */
const clearMs = 100;

/** The executions of one sandbox, and the guest's word on each. */
export interface Executions extends Omit<GuestFrames, 'hello'> {
  /** How many have not ended. */
  readonly running: number;
  /** Runs the request, or finds the execution that already has its id. `traceparent`: where it belongs in a trace. */
  accept(request: ExecuteRequest, traceparent?: string): Execution;
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
  host: Omit<ExecutionHost, 'stored' | 'settled' | 'ended' | 'giveBack'>,
  around: Surroundings,
  records: readonly JournalRecord[],
  limit: number,
): Executions {
  const byId = new Map<string, Execution>();
  const byNumber = new Map<bigint, Execution>();
  const unsettled = new Set<Execution>();
  const stored = new Set<Execution>();
  /** Ended, with processes left in their cgroups; looked at again when the next one ends. */
  const leftovers = new Set<Execution>();
  /** Of nests that were given up. */
  const abandoned = new Set<NestCgroup>();
  let last = 0n;
  let highest = 0n;
  let clearing: NodeJS.Timeout | undefined;
  let synced = false;
  let prepared = false;

  const nests = createNests(host.cgroups, host.send, (cgroup) => {
    abandoned.add(cgroup);
    clearSoon();
  });
  const executionHost: ExecutionHost = {
    ...host,
    // A warm sandbox gets its session's id after this.
    get sessionId() {
      return host.sessionId;
    },
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
    const { spec, startSpec } = acceptRequest(number, request, accepted, around);
    const execution = new Execution(spec, startSpec, adopted, executionHost);
    byId.set(spec.id, execution);
    byNumber.set(number, execution);
    unsettled.add(execution);
    last = number;
    return execution;
  }

  function replay(): void {
    const traceparents = new Map<bigint, string>();
    for (const { number, record } of records) {
      if (record.case === 'accepted' && record.value.request !== undefined) {
        const { request, time, nest, traceparent } = record.value;
        if (traceparent !== '') traceparents.set(number, traceparent);
        add(number, request, { ms: time === undefined ? 0 : timestampMs(time), nest }, true);
      } else byNumber.get(number)?.restore(record);
    }
    for (const execution of unsettled) {
      if (!execution.settled) {
        execution.follow(traceparents.get(execution.spec.number));
        continue;
      }
      unsettled.delete(execution);
      host.budget.settled(execution);
    }
  }

  function known(number: bigint): Execution {
    const execution = byNumber.get(number);
    if (execution === undefined) throw new GuestViolation(`a frame for execution ${number}, which was never started`);
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

  function clearSoon(): void {
    clearing ??= setTimeout(clear, clearMs).unref();
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
    get running() {
      let count = 0;
      for (const execution of unsettled) if (execution.running) count++;
      return count;
    },
    accept(request, traceparent) {
      const existing = byId.get(request.executionId);
      if (existing !== undefined) {
        if (existing.spec.fingerprint === fingerprintOf(request)) return existing;
        const message = `execution_id ${request.executionId} was used for another command; choose a new one`;
        throw new DomainError('EXECUTION_ID_REUSED', message);
      }
      if (byId.size >= limit) {
        const message = `the session has run ${limit} executions, as many as it remembers; make a new session`;
        throw new DomainError('EXECUTION_QUOTA', message, { limit: String(limit) });
      }
      const number = last + 1n;
      const ms = Date.now();
      const nest = synced ? nests.take() : undefined;
      const place = { ms, nest: nest?.number ?? 0 };
      const accepted = { request, time: timestampFromMs(ms), nest: place.nest, traceparent: traceparent ?? '' };
      host.journal.append(create(JournalRecordSchema, { number, record: { case: 'accepted', value: accepted } }));
      const execution = add(number, request, place, false);
      execution.follow(traceparent);
      if (synced) execution.begin(nest);
      return execution;
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
      if (seen > last) throw new GuestViolation(`execution ${seen} was never started`);
      highest = seen;
      synced = false;
      nests.drop();
    },
    disconnected() {
      synced = false;
      nests.drop();
    },
    synced() {
      synced = true;
      // In order: the guest runs a number only once, and only if none above it was seen.
      for (const execution of unsettled) if (execution.spec.number > highest) execution.begin();
      if (prepared) nests.make();
    },
    state: (number, stdout, stderr, received) => known(number).onState(stdout, stderr, received),
    nested: nests.nested,
    spawned: (number, pid) => void known(number).onSpawned(pid),
    started: (number) => known(number).onStarted(),
    failed: (number, step, errno) => known(number).onFailed(step, errno),
    output: (number, stream, offset, data) => known(number).onOutput(stream, offset, data),
    inputAck(number, received, written, ended, closed) {
      const { input, awaiting } = known(number);
      const before = input.received;
      input.acknowledged(received, written, ended, closed);
      host.meter.inputBytes += input.received - before;
      if (input.received > before || ended || closed) awaiting.over();
    },
    awaiting: (number, kind) => known(number).onAwaiting(kind),
    exit: (number, exit) => known(number).onExit(exit),
    closed: (number, stdout, stderr) => known(number).onClosed(stdout, stderr),
    unknown: (number) => known(number).lose('the sandbox does not know how this execution ended'),
    delivered() {
      for (const execution of stored) execution.delivered();
      stored.clear();
    },
    freeze() {
      for (const execution of unsettled) execution.freeze();
    },
    thaw() {
      for (const execution of unsettled) execution.thaw();
    },
    heartbeat() {
      for (const execution of unsettled) execution.heartbeat();
    },
    lose(message) {
      for (const execution of unsettled) execution.lose(message);
    },
    failReaders(error) {
      for (const execution of unsettled) execution.failReaders(error);
    },
    release() {
      for (const execution of byNumber.values()) host.budget.released(execution);
    },
  };
}
