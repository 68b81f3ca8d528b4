import { durationMs, timestampMs } from '@bufbuild/protobuf/wkt';
import type { SessionRecord } from '../../../gen/assay/internal/v1/records_pb.js';
import { PauseReason, type Session, SessionEndReason, SessionState } from '../../../gen/assay/v1/session_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { Logger } from '../../shared/log.ts';
import { briefly } from '../../shared/sample/build-failure.ts';
import { type EndCause, type Hold, isTerminal } from '../../shared/session-state.ts';
import type { Stored } from '../../shared/store/session-store.ts';
import type { ContainerLimits, Engine } from '../docker/engine.ts';
import type { Admission, Promised } from '../host/admission.ts';
import { stateOf } from '../log/session-log.ts';
import type { Meter } from '../meter.ts';
import type { Networks } from '../network/networks.ts';
import type { SealSource } from '../submission/seal.ts';
import type { Burial } from './burial.ts';
import { createForkCopies, type Origin, originOf, wasClosed } from './fork.ts';
import type { Places } from './places.ts';
import type { RecordKeeper } from './record-keeper.ts';
import { completeLimits, limitsOf, type Sandbox } from './sandbox.ts';
import { guestTimeoutMs, type SandboxMaker, type SandboxPlan } from './sandbox-maker.ts';
import type { SessionImages } from './session-images.ts';
import type { Slots } from './slot.ts';
import { checkAwake, holdOf, pauseSession, resumeSession, whileStill } from './standstill.ts';
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
  readonly workerId: string;
  readonly baseImage: string;
  readonly places: Places;
  readonly defaultLimits: ContainerLimits;
  readonly admission: Admission;
  /** Why the sessions of a project have to stand still now. Undefined: they may run. */
  readonly holdFor: (project: string) => Hold | undefined;
  readonly log: Logger;
}

/** Every sandbox of this worker. One thing at a time happens to each. */
export interface Sandboxes {
  readonly size: number;
  readonly live: Iterable<Sandbox>;
  /** What was promised to sessions whose sandbox is not there yet. */
  readonly arriving: Iterable<Promised>;
  /** Whether the session has a sandbox here, or is getting or losing one. */
  holds(sessionId: string): boolean;
  find(sessionId: string): Sandbox;
  /** The same for a call of its owner, which keeps it from its idle timeout. */
  use(sessionId: string): Sandbox;
  /** Of a session that has a sandbox here; empty: it has none. */
  projectOf(sessionId: string): string;
  /** Brings a CREATING record to READY or FAILED. */
  create(project: string, sessionId: string): Promise<void>;
  /** Gives a warm sandbox to a session and writes its first record, READY. Undefined: nothing happened. */
  takeWarm(record: SessionRecord): Promise<Stored<SessionRecord> | undefined>;
  /** Those of which it is not known whether their session has a record that names this worker. */
  readonly doubtful: Iterable<Sandbox>;
  /** Removes a doubtful sandbox if its session has no record that names this worker, or has ended. */
  dropUnrecorded(sandbox: Sandbox): Promise<void>;
  /** Takes up a sandbox that a worker before this one made. */
  adopt(record: SessionRecord, containerId: string, guestMs?: number): Promise<void>;
  /** Removes everything and records the end. `why` is recorded unless the record says already why it closes. */
  close(project: string, sessionId: string, why: EndCause): Promise<void>;
  fail(project: string, sessionId: string, why: EndCause): Promise<void>;
  /** Archives and removes what is left of a sandbox that is gone, and records that and, if it is given, the end. */
  finish: Burial['finish'];
  pause(project: string, sessionId: string): Promise<void>;
  /** Ends the owner's pause. While the project's sessions have to stand still the session is held from then on. */
  resume(project: string, sessionId: string): Promise<void>;
  /** Pauses a session on the worker's own account, until it is let go. Not if its owner has paused it. */
  hold(sandbox: Sandbox, why: Hold): Promise<void>;
  /** Ends a hold for this reason. The session goes on unless there is another. */
  letGo(sandbox: Sandbox, reason: Hold['pauseReason']): Promise<void>;
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
  const { engine, images, maker, burial, meter, networks, places, pool, records, slots, log } = deps;
  const live = new Map<string, Sandbox>();
  const arriving = new Map<string, Promised>();
  const doubtful = new Set<Sandbox>();
  const copies = createForkCopies();
  const { busy, exclusively, over } = createTurns();
  /** Why each sandbox that is being removed has to go. */
  const ending = new Map<string, string>();
  let taking = true;
  /** Why no sandbox is to be had here any more, though its session may live. */
  let handedOver: DomainError | undefined;

  function checkTaking(): void {
    if (!taking) throw new DomainError('SHUTTING_DOWN', 'the worker is stopping; try again');
  }

  function violated(sandbox: Sandbox, reason: string): void {
    log.warn({ session_id: sandbox.sessionId, reason }, 'a guest broke the protocol');
    const why = {
      endReason: SessionEndReason.GUEST_PROTOCOL,
      message: `the sandbox's guest broke the protocol: ${reason}`,
    };
    sandboxes.fail(sandbox.project, sandbox.sessionId, why).catch((error) => {
      log.error({ session_id: sandbox.sessionId, err: error }, 'a sandbox with a broken guest could not be removed');
    });
  }

  function follow(sandbox: Sandbox, session: Session): void {
    sandbox.expireMs = expiryOf(session);
    sandbox.idleMs = session.idleTimeout === undefined ? undefined : durationMs(session.idleTimeout);
    sandbox.activeMs = Date.now();
  }

  function expiryOf({ expireTime }: Session): number {
    return expireTime === undefined ? Number.POSITIVE_INFINITY : timestampMs(expireTime);
  }

  function own(sandbox: Sandbox, sessionId: string): void {
    sandbox.violated = (reason) => violated(sandbox, reason);
    live.set(sessionId, sandbox);
    arriving.delete(sessionId);
    places.hold(sessionId, sandbox.project);
  }

  /** The session's variables; they win over those of its network. */
  function environmentFor({ network, env }: Session): Record<string, string> {
    return { ...networks.environment(network), ...env };
  }

  async function originFor(project: string, session: Session): Promise<Partial<Origin> & Pick<Origin, 'image'>> {
    if (session.forkedFrom === '') return { image: await images.of(session) };
    return originOf({ engine, live, copies, exclusively }, project, session);
  }

  /** Makes container and guest; on failure nothing is left. */
  async function make(project: string, session: Session): Promise<Sandbox> {
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
    // The files of a fork may take longer to copy than it has to live.
    sandbox.expireMs = expiryOf(session);
    try {
      await maker.start(sandbox, plan);
      await networks.attach(sessionId, session.network, sandbox);
      follow(sandbox, session);
      sandbox.log.ready();
      // Before anybody is told that it is there.
      const why = deps.holdFor(project);
      if (why !== undefined) await pauseSession(deps, sandbox, why);
      // The session may have been given to another worker meanwhile.
      doubtful.add(sandbox);
      return sandbox;
    } catch (error) {
      await discard(sandbox, 'the sandbox could not be made');
      throw error;
    }
  }

  /**
   * READY, and paused where it is held, in one write: whoever waits for READY is told both. Whatever has it stand still from now on waits
   * for its turn.
   */
  async function recordReady(sandbox: Sandbox): Promise<void> {
    const { project, sessionId, held } = sandbox;
    await records.put(project, sessionId, { type: 'ready', limits: limitsOf(sandbox), ...(held && { held }) });
    // One that was READY before it was taken up is paused by this.
    if (held !== undefined) await records.put(project, sessionId, { type: 'paused', ...held });
  }

  /** Its owner, or what it was held for, lets it go on. */
  async function goOn(sandbox: Sandbox): Promise<void> {
    const why = deps.holdFor(sandbox.project);
    await (why === undefined ? resumeSession(deps, sandbox) : pauseSession(deps, sandbox, why));
  }

  /** From here on nobody finds it: what is closed then must not be written to. */
  function takeOut(sandbox: Sandbox): void {
    const { sessionId } = sandbox;
    live.delete(sessionId);
    places.free(sessionId);
    doubtful.delete(sandbox);
    networks.detach(sessionId);
  }

  async function whileEnding(sessionId: string, why: EndCause, remove: () => Promise<void>): Promise<void> {
    ending.set(sessionId, why.message);
    try {
      await remove();
    } finally {
      ending.delete(sessionId);
    }
  }

  /** Removes everything a sandbox has, in the order that leaves nothing unowned. */
  async function discard(sandbox: Sandbox, message: string): Promise<void> {
    takeOut(sandbox);
    await maker.discard(sandbox, message);
  }

  /** A close that failed half-way left the directory, with the log that is still to be archived. */
  async function closeRemains(project: string, sessionId: string): Promise<void> {
    const record = slots.list().includes(sessionId) ? await records.get(project, sessionId) : undefined;
    if (record === undefined) return records.put(project, sessionId, { type: 'closed', atMs: Date.now() });
    const { containerId } = slots.open(sessionId).load();
    if (containerId !== '') await engine.remove(containerId, project);
    await burial.finish(record, { type: 'closed' });
  }

  function failure(raised: unknown): EndCause {
    const endReason = SessionEndReason.CREATE_FAILED;
    // The record is for every key of the project.
    const error = briefly(raised);
    if (error instanceof DomainError) return { endReason, errorReason: error.reason, message: error.message };
    log.error({ err: error }, 'a sandbox could not be made');
    const message = 'the sandbox could not be made; the worker log has the details';
    return { endReason, errorReason: 'ENGINE_FAILED', message };
  }

  const startWarm = createWarmStart({
    ...{ engine, networks, pool, records, meter, log, own, follow, discard, images, environmentFor },
    ...{ baseImage: deps.baseImage, defaultLimits: deps.defaultLimits },
    hasRoomFor: (sessionId, project) =>
      !live.has(sessionId) &&
      deps.admission.takesWork &&
      places.refusal(project) === undefined &&
      deps.admission.hasShareFor(project),
    waitsForEngine: (project) =>
      live.values().some((sandbox) => sandbox.project === project && sandbox.file.containerId === ''),
    standsStill: (project) => deps.holdFor(project) !== undefined,
    owns: (sandbox) => live.get(sandbox.sessionId) === sandbox,
    doubt: (sandbox) => doubtful.add(sandbox),
  });

  const sandboxes: Sandboxes = {
    get size() {
      return live.size;
    },
    get live() {
      return live.values();
    },
    get arriving() {
      return arriving.values();
    },
    get doubtful() {
      return doubtful.values();
    },
    holds: (sessionId) => live.has(sessionId) || busy(sessionId) || images.preparing(sessionId),
    find(sessionId) {
      const sandbox = live.get(sessionId);
      if (sandbox !== undefined) return sandbox;
      if (handedOver !== undefined) throw handedOver;
      const why = ending.get(sessionId);
      if (why !== undefined) throw new DomainError('SESSION_ENDED', `session ${sessionId} is being closed: ${why}`);
      if (busy(sessionId)) {
        const metadata = { session_id: sessionId, worker_id: deps.workerId };
        throw new DomainError('SESSION_UNREACHABLE', `the worker is still taking up session ${sessionId}`, metadata);
      }
      throw new DomainError('SESSION_NOT_FOUND', `no session ${sessionId} on this worker`, { session_id: sessionId });
    },
    use(sessionId) {
      const sandbox = sandboxes.find(sessionId);
      sandbox.activeMs = Date.now();
      return sandbox;
    },
    projectOf: (sessionId) => live.get(sessionId)?.project ?? '',
    async create(project, sessionId) {
      const unprepared = await images.prepare(project, sessionId);
      await exclusively(sessionId, async () => {
        checkTaking();
        const record = await records.get(project, sessionId);
        if (record?.session?.state !== SessionState.CREATING) return;
        const waiting = live.get(sessionId);
        if (waiting !== undefined) {
          follow(waiting, record.session);
          return recordReady(waiting);
        }
        const asked = { ...completeLimits(record.session.limits, deps.defaultLimits), project };
        deps.admission.checkSandbox(asked);
        places.take(sessionId, project);
        // No await since the check: of two that come together the second sees the first.
        arriving.set(sessionId, asked);
        const began = performance.now();
        const made = (outcome: 'ready' | 'failed') =>
          meter.sandboxMade('cold', outcome, (performance.now() - began) / 1_000);
        try {
          if (unprepared !== undefined) throw unprepared;
          const sandbox = await make(project, record.session);
          made('ready');
          await recordReady(sandbox);
        } catch (error) {
          made('failed');
          places.free(sessionId);
          arriving.delete(sessionId);
          // Its close waits for its turn and records the end; the next worker makes what this one had no time for.
          if (wasClosed(sessionId, error) || handedOver !== undefined) return;
          await records.put(project, sessionId, { type: 'failed', ...failure(error), atMs: Date.now() });
        } finally {
          copies.end(sessionId);
        }
      });
    },
    takeWarm: (record) =>
      exclusively(record.session?.sessionId ?? '', async () => {
        checkTaking();
        // One that is made for it stands still before its session is told of.
        return deps.holdFor(record.project) === undefined ? startWarm(record) : undefined;
      }),
    dropUnrecorded: (sandbox) =>
      exclusively(sandbox.sessionId, async () => {
        const { project, sessionId } = sandbox;
        if (live.get(sessionId) !== sandbox) return;
        const session = (await records.get(project, sessionId))?.session;
        if (session === undefined) await discard(sandbox, 'its session was never recorded');
        // Whoever gave up waiting for it has recorded that it failed, and nobody will close it.
        else if (isTerminal(session.state)) await discard(sandbox, 'its session ended before it was made');
        doubtful.delete(sandbox);
      }),
    adopt: (record, containerId, guestMs = guestTimeoutMs) =>
      exclusively(record.session?.sessionId ?? '', () => adopt(record, containerId, guestMs)),
    close(project, sessionId, why) {
      images.cancel(sessionId);
      copies.cancel(sessionId);
      return exclusively(sessionId, async () => {
        // The sandbox is still there, and the next worker closes it: the record says that it is to be closed.
        if (handedOver !== undefined) throw handedOver;
        await records.put(project, sessionId, { type: 'closing', ...why });
        const sandbox = live.get(sessionId);
        if (sandbox === undefined) return closeRemains(project, sessionId);
        meter.sandboxEnded(SessionEndReason[why.endReason]);
        sandbox.log.tell({ case: 'state', value: stateOf(SessionState.CLOSING, why) });
        takeOut(sandbox);
        await whileEnding(sessionId, why, () => burial.close(sandbox, `the session was closed: ${why.message}`));
      });
    },
    fail(_project, sessionId, why) {
      copies.cancelOf(sessionId);
      return exclusively(sessionId, async () => {
        const sandbox = live.get(sessionId);
        if (sandbox === undefined) return;
        meter.sandboxEnded(SessionEndReason[why.endReason]);
        takeOut(sandbox);
        await whileEnding(sessionId, why, () => burial.fail(sandbox, why));
      });
    },
    finish: (record, end) => exclusively(record.session?.sessionId ?? '', () => burial.finish(record, end)),
    pause: (_project, sessionId) => exclusively(sessionId, () => pauseSession(deps, sandboxes.find(sessionId))),
    resume: (_project, sessionId) =>
      exclusively(sessionId, async () => {
        const sandbox = sandboxes.find(sessionId);
        if (sandbox.held?.pauseReason === PauseReason.DISK_PRESSURE) checkAwake(sandbox);
        await goOn(sandbox);
      }),
    hold: (sandbox, why) =>
      exclusively(sandbox.sessionId, async () => {
        if (live.get(sandbox.sessionId) === sandbox && !sandbox.paused) await pauseSession(deps, sandbox, why);
      }),
    letGo: (sandbox, reason) =>
      exclusively(sandbox.sessionId, async () => {
        if (live.get(sandbox.sessionId) === sandbox && sandbox.held?.pauseReason === reason) await goOn(sandbox);
      }),
    wake: (sandbox) =>
      exclusively(sandbox.sessionId, async () => {
        // Somebody may have paused it before it was this one's turn.
        if (live.get(sandbox.sessionId) !== sandbox || sandbox.paused) return;
        await engine.resume(sandbox.file.containerId, sandbox.project);
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
        throw new DomainError('SESSION_NOT_FOUND', `no session ${sessionId} on this worker`, { session_id: sessionId });
      };
      return {
        containerId: sandbox().file.containerId,
        project,
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
      handedOver = error;
      copies.cancelAll(error);
      const sandboxes = [...live.values()];
      live.clear();
      doubtful.clear();
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
    sandbox.held = session.paused ? holdOf(session) : deps.holdFor(record.project);
    sandbox.paused = session.paused || sandbox.held !== undefined;
    if (sandbox.paused) {
      sandbox.executions.freeze();
      // A worker that died between freezing and recording it, or the other way round: the record is right.
      await engine.pause(containerId, record.project);
    } else {
      await engine.resume(containerId, record.project);
      // A worker that died while it stood still for a moment left it so.
      sandbox.executions.thaw();
      await sandbox.guestReady(guestMs);
    }
    follow(sandbox, session);
    sandbox.log.ready();
    const { held } = sandbox;
    if (held !== undefined && !session.paused) {
      sandbox.log.tell({ case: 'state', value: stateOf(SessionState.READY, { paused: true, ...held }) });
    }
    await recordReady(sandbox);
  }

  return sandboxes;
}
