import { existsSync } from 'node:fs';
import { create } from '@bufbuild/protobuf';
import type { JournalRecord, SandboxFile } from '../../../gen/assay/internal/v1/journal_pb.js';
import { type ResourceLimits, ResourceLimitsSchema } from '../../../gen/assay/v1/types_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { Logger } from '../../shared/log.ts';
import type { Hold } from '../../shared/session-state.ts';
import type { Tracing } from '../../shared/tracing.ts';
import type { WorkShares } from '../../shared/work-shares.ts';
import type { MemoryKills } from '../cgroup/container-usage.ts';
import type { ContainerCgroups } from '../cgroup/execution-cgroup.ts';
import type { EndedMemory } from '../execution/ended-memory.ts';
import type { ExecutionHost } from '../execution/execution-spec.ts';
import { createExecutions, type ExecutionLimits, type Executions } from '../execution/executions.ts';
import { type Journal, openJournal, type StoredRecord } from '../execution/journal.ts';
import type { SpoolBudget } from '../execution/spool-budget.ts';
import type { UnreadPace } from '../execution/unread-pace.ts';
import { createFailureBoundary } from '../failure-boundary.ts';
import { type GuestLink, listenForGuest } from '../guest/link.ts';
import { createSessionLog, type SessionLog } from '../log/session-log.ts';
import type { CompleteLog } from '../log/transcript.ts';
import type { Meter } from '../meter.ts';
import type { Slot } from './slot.ts';

/** What bounds and counts every sandbox of a worker. */
export interface SandboxLimits extends ExecutionLimits {
  readonly keptBytes: number;
  /** What all of them share of the disk for output. */
  readonly budget: SpoolBudget;
  readonly memory: EndedMemory;
  readonly pace: UnreadPace;
  readonly meter: Meter;
  /** The event loop, between projects. */
  readonly shares: WorkShares;
  readonly tracing: Tracing | undefined;
}

/** One live sandbox: a container, its guest and its executions. */
export interface Sandbox {
  readonly project: string;
  readonly sessionId: string;
  readonly executions: Executions;
  readonly log: SessionLog;
  readonly slot: Slot;
  /** Its description; it gets its session's name when it leaves the warm pool. */
  readonly file: SandboxFile;
  /** Whether its guest is there. */
  readonly connected: boolean;
  /** Called when its guest breaks the protocol. */
  violated: (reason: string) => void;
  /** Frozen: nothing in it runs, and no timeout does. */
  paused: boolean;
  /** Why it is paused, if the worker has paused it and not its owner. */
  held: Hold | undefined;
  /** Frozen for a moment by the worker itself: no timeout runs, but executions are taken and start afterwards. */
  still: boolean;
  /** When it is to be closed, and after how much idleness; both may change. */
  expireMs: number;
  idleMs: number | undefined;
  /** When it was last used. */
  activeMs: number;
  cgroups: ContainerCgroups | undefined;
  /** Counts for the whole container, where executions have no cgroups. */
  memoryKills: MemoryKills | undefined;
  /** The container's first process, as the host sees it. */
  pid: number | undefined;
  /** Resolves when the guest has told all it knows; rejects when it does not come. */
  guestReady(timeoutMs: number): Promise<void>;
  /** Frees what the worker holds of it: the socket, the journal. */
  release(): Promise<void>;
  /** Its whole log, once it was released. */
  completeLog(): CompleteLog;
}

/** Opens the worker's side of a sandbox: journal, socket, executions. The container may come later, or be there already. */
export async function openSandbox(slot: Slot, file: SandboxFile, limits: SandboxLimits, log: Logger): Promise<Sandbox> {
  // One of the warm pool is known by its place until a session has it.
  const sessionLog = log.child(file.sessionId === '' ? { slot: slot.socketPath } : { session_id: file.sessionId });
  const { journal, records } = openJournal(slot.journalPath, {
    full: () => limits.budget.full(),
    failed: (error) => sessionLog.error({ err: error }, 'the journal could not be written'),
  });
  const ready = Promise.withResolvers<void>();
  ready.promise.catch(() => {});
  const turn = (): Promise<void> | undefined => limits.shares.turn(file.project);
  let link: GuestLink | undefined;
  /** Its guest was here before: with this process, or with the one that made it. */
  let met = file.containerId !== '';

  const events: JournalRecord[] = [];
  const executions = executionsOf(slot, file, limits, withEvents(records, events), journal, {
    boundary: createFailureBoundary((error) => {
      sessionLog.error({ err: error }, 'a callback of the sandbox failed; the guest has to say again what it knows');
      link?.restart();
    }),
    send: (frame) => link?.send(frame),
    cgroups: () => sandbox.cgroups,
    memoryKills: () => sandbox.memoryKills?.(),
    unplaced(number) {
      limits.meter.cgroupFailures.process += 1;
      sessionLog.warn({ number: String(number) }, 'a process runs outside of its cgroup; the guest accounts for it');
    },
  });

  const sandbox: Sandbox = {
    get project() {
      return file.project;
    },
    get sessionId() {
      return file.sessionId;
    },
    executions,
    log: createSessionLog(
      journal,
      events,
      {
        get path() {
          return slot.journalPath;
        },
        execution: executions.at,
      },
      turn,
    ),
    slot,
    file,
    get connected() {
      return link?.connected === true;
    },
    violated: () => {},
    paused: false,
    held: undefined,
    still: false,
    expireMs: Number.POSITIVE_INFINITY,
    idleMs: undefined,
    activeMs: Date.now(),
    cgroups: undefined,
    memoryKills: undefined,
    pid: undefined,
    guestReady: (timeoutMs) => within(ready.promise, timeoutMs),
    async release() {
      const ended = new DomainError('SESSION_ENDED', 'the sandbox was closed');
      ready.reject(ended);
      sandbox.log.close(ended);
      await link?.close();
      journal.close();
      executions.release();
    },
    completeLog: () => completeLogOf(slot, journal, executions),
  };

  link = await listenForGuest(
    () => slot.socketPath,
    file.secret,
    {
      ...executions,
      connected(highest) {
        if (met) limits.meter.guestReconnects += 1;
        met = true;
        executions.connected(highest);
      },
      synced() {
        executions.synced();
        ready.resolve();
      },
      violated: (reason) => sandbox.violated(reason),
    },
    sessionLog,
    turn,
  );
  return sandbox;
}

/** The log of a sandbox of which nothing but its directory is left. Undefined: not even that. */
export function openRemains(slot: Slot, limits: SandboxLimits, message: string): CompleteLog | undefined {
  if (!existsSync(slot.journalPath)) return undefined;
  const { journal, records } = openJournal(slot.journalPath);
  const boundary = createFailureBoundary(() => {});
  const wires = { boundary, send() {}, cgroups: () => undefined, memoryKills: () => undefined, unplaced() {} };
  const executions = executionsOf(slot, slot.load(), limits, records, journal, wires);
  executions.lose(message);
  journal.close();
  executions.release();
  return completeLogOf(slot, journal, executions);
}

function completeLogOf(slot: Slot, journal: Journal, executions: Executions): CompleteLog {
  return {
    path: slot.journalPath,
    size: journal.size,
    execution: executions.at,
    executionCount: executions.count,
    heldBytes: executions.heldBytes,
  };
}

function executionsOf(
  slot: Slot,
  file: SandboxFile,
  limits: SandboxLimits,
  records: Iterable<StoredRecord>,
  journal: Journal,
  wires: Pick<ExecutionHost, 'boundary' | 'send' | 'cgroups' | 'memoryKills' | 'unplaced'>,
): Executions {
  return createExecutions(
    {
      get project() {
        return file.project;
      },
      get sessionId() {
        return file.sessionId;
      },
      journal,
      budget: limits.budget,
      memory: limits.memory,
      journalPath: () => slot.journalPath,
      pace: limits.pace,
      meter: limits.meter,
      tracing: limits.tracing,
      spoolPath: slot.spoolPath,
      ...wires,
    },
    {
      get env() {
        return file.env;
      },
      workingDirectory: file.workingDirectory,
      defaultKeptBytes: limits.keptBytes,
      placeScript: slot.placeScript,
      removeScript: slot.removeScript,
    },
    records,
    limits,
  );
}

/** The records, with what the session's log wants of them put aside as they pass. */
function* withEvents(records: Iterable<StoredRecord>, events: JournalRecord[]): Generator<StoredRecord, void> {
  for (const stored of records) {
    if (stored.entry.record.case === 'event') events.push(stored.entry);
    yield stored;
  }
}

async function within(promise: Promise<void>, timeoutMs: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const message = `the sandbox's guest did not answer within ${timeoutMs} ms`;
    timer = setTimeout(() => reject(new DomainError('SANDBOX_LOST', message)), timeoutMs);
  });
  try {
    await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Limits with nothing left open. */
export function completeLimits(
  limits: ResourceLimits | undefined,
  defaults: { cpus: number; memoryBytes: number; diskBytes: number; pids: number },
): { cpus: number; memoryBytes: number; diskBytes: number; pids: number } {
  return {
    cpus: limits?.cpus ?? defaults.cpus,
    memoryBytes: Number(limits?.memoryBytes ?? defaults.memoryBytes),
    diskBytes: Number(limits?.diskBytes ?? defaults.diskBytes),
    pids: limits?.pids ?? defaults.pids,
  };
}

export function limitsOf({ file }: Sandbox): ResourceLimits {
  return file.limits ?? create(ResourceLimitsSchema);
}
