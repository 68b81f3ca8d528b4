import { randomBytes } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import { durationMs, timestampMs } from '@bufbuild/protobuf/wkt';
import type { SessionRecord } from '../../../gen/assay/events/v1/records_pb.js';
import {
  type ResourceLimits,
  ResourceLimitsSchema,
  type Session,
  SessionState,
} from '../../../gen/assay/v1/session_pb.js';
import { SandboxFileSchema } from '../../../gen/assay/worker/v1/worker_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { Logger } from '../../shared/log.ts';
import { isTerminal } from '../../shared/session-state.ts';
import type { ExecutionCgroups } from '../cgroup/execution-cgroup.ts';
import type { ContainerLimits, Engine } from '../docker/engine.ts';
import { environmentOf } from './environment.ts';
import type { RecordKeeper } from './record-keeper.ts';
import { completeLimits, openSandbox, type Sandbox, type SandboxLimits } from './sandbox.ts';
import type { Slots } from './slot.ts';

const guestTimeoutMs = 20_000;

export const sessionLabel = 'dev.assay.session';
export const projectLabel = 'dev.assay.project';
export const installationLabel = 'dev.assay.installation';

export interface SandboxesDeps {
  readonly engine: Engine;
  readonly cgroups: ExecutionCgroups;
  readonly records: RecordKeeper;
  readonly slots: Slots;
  readonly installation: string;
  readonly baseImage: string;
  readonly capacity: number;
  readonly defaultLimits: ContainerLimits;
  readonly limits: SandboxLimits;
  readonly log: Logger;
}

/** Every sandbox of this worker. One thing at a time happens to each. */
export interface Sandboxes {
  readonly size: number;
  readonly live: Iterable<Sandbox>;
  /** Whether the session has a sandbox here, or is getting or losing one. */
  holds(sessionId: string): boolean;
  find(sessionId: string): Sandbox;
  /** Brings a CREATING record to READY or FAILED. */
  create(project: string, sessionId: string): Promise<void>;
  /** Takes up a sandbox that a worker before this one made. */
  adopt(record: SessionRecord, containerId: string): Promise<void>;
  /** Removes everything and records the end. `why` is recorded unless the record says already why it closes. */
  close(project: string, sessionId: string, why: { reason: string; message: string }): Promise<void>;
  fail(project: string, sessionId: string, why: { reason: string; message: string }): Promise<void>;
  pause(project: string, sessionId: string): Promise<void>;
  resume(project: string, sessionId: string): Promise<void>;
  refresh(project: string, sessionId: string): Promise<void>;
  /** Lets go of every sandbox and leaves it running for the next worker. */
  handOver(error: DomainError): Promise<void>;
}

export function createSandboxes(deps: SandboxesDeps): Sandboxes {
  const { engine, records, slots, log } = deps;
  const { meter } = deps.limits;
  const live = new Map<string, Sandbox>();
  /** What is under way for a session; the next thing waits for it. */
  const busy = new Map<string, Promise<unknown>>();

  function exclusively<T>(sessionId: string, work: () => Promise<T>): Promise<T> {
    const result = (busy.get(sessionId) ?? Promise.resolve()).then(work, work);
    const mark = result.catch(() => {});
    busy.set(sessionId, mark);
    void mark.then(() => {
      if (busy.get(sessionId) === mark) busy.delete(sessionId);
    });
    return result;
  }

  function violated(sandbox: Sandbox, reason: string): void {
    log.warn({ session_id: sandbox.sessionId, reason }, 'a guest broke the protocol');
    const why = { reason: 'GUEST_PROTOCOL', message: `the sandbox's guest broke the protocol: ${reason}` };
    void sandboxes.fail(sandbox.project, sandbox.sessionId, why);
  }

  function follow(sandbox: Sandbox, session: Session): void {
    sandbox.expireMs = session.expireTime === undefined ? Number.POSITIVE_INFINITY : timestampMs(session.expireTime);
    sandbox.idleMs = session.idleTimeout === undefined ? undefined : durationMs(session.idleTimeout);
    sandbox.activeMs = Date.now();
  }

  /** The container runs: its executions get cgroups, and processes are prepared. */
  function enter(sandbox: Sandbox, pid: number): void {
    sandbox.cgroups = deps.cgroups.container(pid);
    if (sandbox.cgroups === undefined && deps.cgroups.kind !== 'none') meter.cgroupFailures.container += 1;
    sandbox.executions.prepare();
  }

  /** Makes container and guest; on failure nothing is left. */
  async function make(project: string, session: Session): Promise<ResourceLimits> {
    const { sessionId } = session;
    const image = await engine.image(session.image || deps.baseImage);
    const limits = completeLimits(session.limits, deps.defaultLimits);
    const slot = slots.make(sessionId);
    const secret = randomBytes(32);
    const file = create(SandboxFileSchema, {
      project,
      sessionId,
      secret,
      imageId: image.id,
      env: environmentOf(image, session.env),
      workingDirectory: image.workingDirectory,
      limits: { ...limits, memoryBytes: BigInt(limits.memoryBytes), diskBytes: BigInt(limits.diskBytes) },
    });
    slot.save(file);
    const sandbox = await openSandbox(slot, file, deps.limits, log, violated);
    live.set(sessionId, sandbox);
    try {
      const container = await engine.run({
        name: `assay-${sessionId}`,
        imageId: image.id,
        labels: {
          [installationLabel]: deps.installation,
          [sessionLabel]: sessionId,
          [projectLabel]: project,
        },
        secretHex: secret.toString('hex'),
        slotDirectory: slot.runDirectory,
        diskDirectory: slot.diskDirectory,
        limits,
      });
      file.containerId = container.id;
      slot.save(file);
      enter(sandbox, container.pid);
      await sandbox.guestReady(guestTimeoutMs);
      follow(sandbox, session);
      return limitsOf(sandbox);
    } catch (error) {
      await discard(sandbox, 'the sandbox could not be made');
      throw error;
    }
  }

  /** Removes everything a sandbox has, in the order that leaves nothing unowned. */
  async function discard(sandbox: Sandbox, message: string): Promise<void> {
    // From here on nobody finds it: what is closed below must not be written to.
    live.delete(sandbox.sessionId);
    sandbox.executions.lose(message);
    await sandbox.release();
    if (sandbox.file.containerId !== '') await engine.remove(sandbox.file.containerId);
    sandbox.slot.remove();
  }

  function failure(error: unknown): { reason: string; message: string } {
    if (error instanceof DomainError) return { reason: error.reason, message: error.message };
    log.error({ err: error }, 'a sandbox could not be made');
    return { reason: 'ENGINE_FAILED', message: 'the sandbox could not be made; the worker log has the details' };
  }

  const sandboxes: Sandboxes = {
    get size() {
      return live.size;
    },
    get live() {
      return live.values();
    },
    holds: (sessionId) => live.has(sessionId) || busy.has(sessionId),
    find(sessionId) {
      const sandbox = live.get(sessionId);
      if (sandbox !== undefined) return sandbox;
      if (busy.has(sessionId)) throw new DomainError('SESSION_ENDED', `session ${sessionId} is being closed`);
      throw new DomainError('SESSION_NOT_FOUND', `no session ${sessionId} on this worker`);
    },
    create: (project, sessionId) =>
      exclusively(sessionId, async () => {
        const record = await records.get(project, sessionId);
        if (record?.session?.state !== SessionState.CREATING || live.has(sessionId)) return;
        if (live.size >= deps.capacity) {
          const message = `the worker holds ${live.size} sandboxes, as many as it can`;
          throw new DomainError('NO_CAPACITY', message, { capacity: String(deps.capacity) });
        }
        const began = performance.now();
        const made = (outcome: 'ready' | 'failed') =>
          meter.sandboxMade('cold', outcome, (performance.now() - began) / 1_000);
        try {
          const limits = await make(project, record.session);
          made('ready');
          await records.put(project, sessionId, { type: 'ready', limits });
        } catch (error) {
          made('failed');
          await records.put(project, sessionId, { type: 'failed', ...failure(error), atMs: Date.now() });
        }
      }),
    adopt: (record, containerId) => exclusively(record.session?.sessionId ?? '', () => adopt(record, containerId)),
    close: (project, sessionId, why) =>
      exclusively(sessionId, async () => {
        await records.put(project, sessionId, { type: 'closing', ...why });
        const sandbox = live.get(sessionId);
        if (sandbox !== undefined) {
          meter.sandboxEnded(why.reason);
          await discard(sandbox, `the session was closed: ${why.message}`);
        }
        await records.put(project, sessionId, { type: 'closed', atMs: Date.now() });
      }),
    fail: (project, sessionId, why) =>
      exclusively(sessionId, async () => {
        const sandbox = live.get(sessionId);
        if (sandbox === undefined) return;
        meter.sandboxEnded(why.reason);
        await records.put(project, sessionId, { type: 'failed', ...why, atMs: Date.now() });
        await discard(sandbox, why.message);
      }),
    pause: (project, sessionId) =>
      exclusively(sessionId, async () => {
        const sandbox = sandboxes.find(sessionId);
        await engine.pause(sandbox.file.containerId);
        sandbox.paused = true;
        sandbox.executions.freeze();
        await records.put(project, sessionId, { type: 'paused' });
      }),
    resume: (project, sessionId) =>
      exclusively(sessionId, async () => {
        const sandbox = sandboxes.find(sessionId);
        await engine.resume(sandbox.file.containerId);
        sandbox.paused = false;
        sandbox.activeMs = Date.now();
        sandbox.executions.thaw();
        await records.put(project, sessionId, { type: 'resumed' });
      }),
    async refresh(project, sessionId) {
      const sandbox = sandboxes.find(sessionId);
      const record = await records.get(project, sessionId);
      if (record?.session !== undefined && !isTerminal(record.session.state)) follow(sandbox, record.session);
    },
    async handOver(error) {
      const sandboxes = [...live.values()];
      live.clear();
      for (const sandbox of sandboxes) sandbox.executions.failReaders(error);
      await Promise.all(sandboxes.map((sandbox) => sandbox.release()));
    },
  };

  async function adopt(record: SessionRecord, containerId: string): Promise<void> {
    const { session } = record;
    if (session === undefined || live.has(session.sessionId)) return;
    const pid = await engine.pid(containerId);
    const slot = slots.open(session.sessionId);
    const file = slot.load();
    file.containerId = containerId;
    const sandbox = await openSandbox(slot, file, deps.limits, log, violated);
    live.set(session.sessionId, sandbox);
    if (pid !== undefined) enter(sandbox, pid);
    sandbox.paused = session.paused;
    if (session.paused) {
      sandbox.executions.freeze();
      // A worker that died between freezing and recording it, or the other way round: the record is right.
      await engine.pause(containerId);
    } else {
      await engine.resume(containerId);
      await sandbox.guestReady(guestTimeoutMs);
    }
    follow(sandbox, session);
    await records.put(record.project, session.sessionId, { type: 'ready', limits: limitsOf(sandbox) });
  }

  return sandboxes;
}

function limitsOf({ file }: Sandbox): ResourceLimits {
  return file.limits ?? create(ResourceLimitsSchema);
}
