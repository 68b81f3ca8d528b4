import { durationMs, timestampMs } from '@bufbuild/protobuf/wkt';
import type { SessionRecord } from '../../../gen/assay/events/v1/records_pb.js';
import { type ResourceLimits, type Session, SessionState } from '../../../gen/assay/v1/session_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { Logger } from '../../shared/log.ts';
import { briefly } from '../../shared/sample/build-failure.ts';
import { isTerminal } from '../../shared/session-state.ts';
import type { Stored } from '../../shared/store/session-store.ts';
import type { ContainerLimits, Engine } from '../docker/engine.ts';
import { stateOf } from '../log/session-log.ts';
import type { Meter } from '../meter.ts';
import type { Networks } from '../network/networks.ts';
import type { SealSource } from '../submission/seal.ts';
import type { Burial } from './burial.ts';
import { type Origin, originOf } from './fork.ts';
import type { RecordKeeper } from './record-keeper.ts';
import { completeLimits, limitsOf, type Sandbox } from './sandbox.ts';
import { guestTimeoutMs, type SandboxMaker, type SandboxPlan } from './sandbox-maker.ts';
import type { SessionImages } from './session-images.ts';
import type { Slots } from './slot.ts';
import { pauseContainer, whileStill } from './standstill.ts';
import { createTurns } from './turns.ts';
import type { WarmPool } from './warm-pool.ts';
import { createWarmStart } from './warm-start.ts';

export const sessionLabel = 'dev.assay.session';
export const projectLabel = 'dev.assay.project';
export const installationLabel = 'dev.assay.installation';

export interface SandboxesDeps {
  readonly engine: Engine;
  readonly maker: SandboxMaker;
  readonly networks: Networks;
  readonly burial: Burial;
  readonly meter: Meter;
  readonly pool: WarmPool;
  readonly records: RecordKeeper;
  readonly images: SessionImages;
  readonly slots: Slots;
  readonly installation: string;
  readonly baseImage: string;
  readonly capacity: number;
  readonly defaultLimits: ContainerLimits;
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
  /** Gives a warm sandbox to a session and writes its first record, READY. Undefined: nothing happened. */
  takeWarm(record: SessionRecord): Promise<Stored<SessionRecord> | undefined>;
  /** Removes a sandbox whose record was never written. */
  dropUnrecorded(sandbox: Sandbox): Promise<void>;
  /** Takes up a sandbox that a worker before this one made. */
  adopt(record: SessionRecord, containerId: string, guestMs?: number): Promise<void>;
  /** Removes everything and records the end. `why` is recorded unless the record says already why it closes. */
  close(project: string, sessionId: string, why: { reason: string; message: string }): Promise<void>;
  fail(project: string, sessionId: string, why: { reason: string; message: string }): Promise<void>;
  /** Archives and removes what is left of a sandbox that is gone, and records that and, if it is given, the end. */
  finish: Burial['finish'];
  pause(project: string, sessionId: string): Promise<void>;
  resume(project: string, sessionId: string): Promise<void>;
  /** Has the engine resume one that is paused for nobody. */
  wake(sandbox: Sandbox): Promise<void>;
  refresh(project: string, sessionId: string): Promise<void>;
  /** The session's container, and a way to have it stand still, for whoever takes what it has changed. */
  sealSource(project: string, sessionId: string): SealSource;
  /** Makes none any more, and resolves when those that are being made are there, or not. */
  takeNoMore(): Promise<void>;
  /** Removes every sandbox without a word in its record, which is another worker's; the records were given up before. */
  abandon(message: string): Promise<void>;
  /** Lets go of every sandbox and leaves it running for the next worker. */
  handOver(error: DomainError): Promise<void>;
}

export function createSandboxes(deps: SandboxesDeps): Sandboxes {
  const { engine, images, maker, burial, meter, networks, pool, records, slots, log } = deps;
  const live = new Map<string, Sandbox>();
  const { busy, exclusively, over } = createTurns();
  let taking = true;

  function checkTaking(): void {
    if (!taking) throw new DomainError('SHUTTING_DOWN', 'the worker is stopping; try again');
  }

  function violated(sandbox: Sandbox, reason: string): void {
    log.warn({ session_id: sandbox.sessionId, reason }, 'a guest broke the protocol');
    const why = { reason: 'GUEST_PROTOCOL', message: `the sandbox's guest broke the protocol: ${reason}` };
    sandboxes.fail(sandbox.project, sandbox.sessionId, why).catch((error) => {
      log.error({ session_id: sandbox.sessionId, err: error }, 'a sandbox with a broken guest could not be removed');
    });
  }

  function follow(sandbox: Sandbox, session: Session): void {
    sandbox.expireMs = session.expireTime === undefined ? Number.POSITIVE_INFINITY : timestampMs(session.expireTime);
    sandbox.idleMs = session.idleTimeout === undefined ? undefined : durationMs(session.idleTimeout);
    sandbox.activeMs = Date.now();
  }

  function own(sandbox: Sandbox, sessionId: string): void {
    sandbox.violated = (reason) => violated(sandbox, reason);
    live.set(sessionId, sandbox);
  }

  /** The session's variables; they win over those of its network. */
  function environmentFor({ network, env }: Session): Record<string, string> {
    return { ...networks.environment(network), ...env };
  }

  async function originFor(project: string, session: Session): Promise<Partial<Origin> & Pick<Origin, 'image'>> {
    if (session.forkedFrom === '') return { image: await images.of(session) };
    return originOf({ engine, live, exclusively }, project, session);
  }

  /** Makes container and guest; on failure nothing is left. */
  async function make(project: string, session: Session): Promise<ResourceLimits> {
    const { sessionId } = session;
    networks.check(session.network);
    const { image, files } = await originFor(project, session);
    const plan: SandboxPlan = {
      name: sessionId,
      project,
      sessionId,
      image,
      env: environmentFor(session),
      limits: completeLimits(session.limits, deps.defaultLimits),
      labels: { [installationLabel]: deps.installation, [sessionLabel]: sessionId, [projectLabel]: project },
      background: false,
      files,
    };
    const sandbox = await maker.open(plan);
    own(sandbox, sessionId);
    try {
      await maker.start(sandbox, plan);
      await networks.attach(sessionId, session.network, sandbox);
      follow(sandbox, session);
      sandbox.log.ready();
      return limitsOf(sandbox);
    } catch (error) {
      await discard(sandbox, 'the sandbox could not be made');
      throw error;
    }
  }

  /** From here on nobody finds it: what is closed then must not be written to. */
  function takeOut({ sessionId }: Sandbox): void {
    live.delete(sessionId);
    networks.detach(sessionId);
  }

  /** Removes everything a sandbox has, in the order that leaves nothing unowned. */
  async function discard(sandbox: Sandbox, message: string): Promise<void> {
    takeOut(sandbox);
    await maker.discard(sandbox, message);
  }

  function failure(raised: unknown): { reason: string; message: string } {
    // The record is for every key of the project.
    const error = briefly(raised);
    if (error instanceof DomainError) return { reason: error.reason, message: error.message };
    log.error({ err: error }, 'a sandbox could not be made');
    return { reason: 'ENGINE_FAILED', message: 'the sandbox could not be made; the worker log has the details' };
  }

  const startWarm = createWarmStart({
    ...{ engine, networks, pool, records, meter, log, own, follow, discard, images, environmentFor },
    ...{ baseImage: deps.baseImage, defaultLimits: deps.defaultLimits },
    hasRoomFor: (sessionId) => !live.has(sessionId) && live.size < deps.capacity,
    owns: (sandbox) => live.get(sandbox.sessionId) === sandbox,
  });

  const sandboxes: Sandboxes = {
    get size() {
      return live.size;
    },
    get live() {
      return live.values();
    },
    holds: (sessionId) => live.has(sessionId) || busy(sessionId) || images.preparing(sessionId),
    find(sessionId) {
      const sandbox = live.get(sessionId);
      if (sandbox !== undefined) return sandbox;
      if (busy(sessionId)) throw new DomainError('SESSION_ENDED', `session ${sessionId} is being closed`);
      throw new DomainError('SESSION_NOT_FOUND', `no session ${sessionId} on this worker`);
    },
    async create(project, sessionId) {
      const unprepared = await images.prepare(project, sessionId);
      await exclusively(sessionId, async () => {
        checkTaking();
        const record = await records.get(project, sessionId);
        if (record?.session?.state !== SessionState.CREATING) return;
        const waiting = live.get(sessionId);
        if (waiting !== undefined) {
          follow(waiting, record.session);
          await records.put(project, sessionId, { type: 'ready', limits: limitsOf(waiting) });
          return;
        }
        if (live.size >= deps.capacity) {
          const message = `the worker holds ${live.size} sandboxes, as many as it can`;
          throw new DomainError('NO_CAPACITY', message, { capacity: String(deps.capacity) });
        }
        const began = performance.now();
        const made = (outcome: 'ready' | 'failed') =>
          meter.sandboxMade('cold', outcome, (performance.now() - began) / 1_000);
        try {
          if (unprepared !== undefined) throw unprepared;
          const limits = await make(project, record.session);
          made('ready');
          await records.put(project, sessionId, { type: 'ready', limits });
        } catch (error) {
          made('failed');
          await records.put(project, sessionId, { type: 'failed', ...failure(error), atMs: Date.now() });
        }
      });
    },
    takeWarm: (record) =>
      exclusively(record.session?.sessionId ?? '', async () => {
        checkTaking();
        return startWarm(record);
      }),
    dropUnrecorded: (sandbox) =>
      exclusively(sandbox.sessionId, async () => {
        const { project, sessionId } = sandbox;
        if (live.get(sessionId) !== sandbox || (await records.get(project, sessionId)) !== undefined) return;
        await discard(sandbox, 'its session was never recorded');
      }),
    adopt: (record, containerId, guestMs = guestTimeoutMs) =>
      exclusively(record.session?.sessionId ?? '', () => adopt(record, containerId, guestMs)),
    close(project, sessionId, why) {
      images.cancel(sessionId);
      return exclusively(sessionId, async () => {
        await records.put(project, sessionId, { type: 'closing', ...why });
        const sandbox = live.get(sessionId);
        if (sandbox !== undefined) {
          meter.sandboxEnded(why.reason);
          sandbox.log.tell({ case: 'state', value: stateOf(SessionState.CLOSING, why) });
          takeOut(sandbox);
          await burial.close(sandbox, `the session was closed: ${why.message}`);
        } else await records.put(project, sessionId, { type: 'closed', atMs: Date.now() });
      });
    },
    fail: (_project, sessionId, why) =>
      exclusively(sessionId, async () => {
        const sandbox = live.get(sessionId);
        if (sandbox === undefined) return;
        meter.sandboxEnded(why.reason);
        takeOut(sandbox);
        await burial.fail(sandbox, why);
      }),
    finish: (record, end) => exclusively(record.session?.sessionId ?? '', () => burial.finish(record, end)),
    pause: (project, sessionId) =>
      exclusively(sessionId, async () => {
        const sandbox = sandboxes.find(sessionId);
        await pauseContainer(engine, sandbox);
        sandbox.paused = true;
        sandbox.log.tell({ case: 'state', value: stateOf(SessionState.READY, { paused: true }) });
        await records.put(project, sessionId, { type: 'paused' });
      }),
    resume: (project, sessionId) =>
      exclusively(sessionId, async () => {
        const sandbox = sandboxes.find(sessionId);
        await engine.resume(sandbox.file.containerId);
        sandbox.paused = false;
        sandbox.activeMs = Date.now();
        sandbox.executions.thaw();
        sandbox.log.tell({ case: 'state', value: stateOf(SessionState.READY) });
        await records.put(project, sessionId, { type: 'resumed' });
      }),
    wake: (sandbox) =>
      exclusively(sandbox.sessionId, async () => {
        // Somebody may have paused it before it was this one's turn.
        if (live.get(sandbox.sessionId) !== sandbox || sandbox.paused) return;
        await engine.resume(sandbox.file.containerId);
      }),
    async refresh(project, sessionId) {
      const sandbox = sandboxes.find(sessionId);
      const record = await records.get(project, sessionId);
      if (record?.session !== undefined && !isTerminal(record.session.state)) follow(sandbox, record.session);
    },
    sealSource(project, sessionId) {
      const sandbox = (): Sandbox => {
        const found = sandboxes.find(sessionId);
        if (found.project === project) return found;
        throw new DomainError('SESSION_NOT_FOUND', `no session ${sessionId} on this worker`);
      };
      return {
        containerId: sandbox().file.containerId,
        whileStill: (work) => exclusively(sessionId, () => whileStill(engine, sandbox(), work)),
      };
    },
    async takeNoMore() {
      taking = false;
      await over();
    },
    async abandon(message) {
      const removing = [...live.values()].map((sandbox) =>
        exclusively(sandbox.sessionId, () => discard(sandbox, message)).catch((error) => {
          log.error({ session_id: sandbox.sessionId, err: error }, 'a sandbox could not be removed');
        }),
      );
      await Promise.all(removing);
    },
    async handOver(error) {
      const sandboxes = [...live.values()];
      live.clear();
      for (const sandbox of sandboxes) sandbox.executions.failReaders(error);
      await Promise.all(sandboxes.map((sandbox) => sandbox.release()));
    },
  };

  async function adopt(record: SessionRecord, containerId: string, guestMs: number): Promise<void> {
    const { session } = record;
    if (session === undefined || live.has(session.sessionId)) return;
    const pid = await engine.pid(containerId);
    const sandbox = await maker.reopen(slots.open(session.sessionId), containerId);
    own(sandbox, session.sessionId);
    if (pid !== undefined) maker.enter(sandbox, pid);
    // One that was not READY may have no network yet, or half of one.
    const join = session.state === SessionState.CREATING ? networks.attach : networks.reattach;
    await join(session.sessionId, session.network, sandbox);
    sandbox.paused = session.paused;
    if (session.paused) {
      sandbox.executions.freeze();
      // A worker that died between freezing and recording it, or the other way round: the record is right.
      await engine.pause(containerId);
    } else {
      await engine.resume(containerId);
      // A worker that died while it stood still for a moment left it so.
      sandbox.executions.thaw();
      await sandbox.guestReady(guestMs);
    }
    follow(sandbox, session);
    sandbox.log.ready();
    await records.put(record.project, session.sessionId, { type: 'ready', limits: limitsOf(sandbox) });
  }

  return sandboxes;
}
