import type { SessionRecord } from '../../../gen/assay/internal/v1/records_pb.js';
import { SessionEndReason, SessionState, TranscriptState } from '../../../gen/assay/v1/session_pb.js';
import type { Logger } from '../../shared/log.ts';
import { type EndCause, isOver, isTerminal } from '../../shared/session-state.ts';
import type { ContainerSummary, Engine } from '../docker/engine.ts';
import { gradingKind, kindLabel } from '../grading/grading-container.ts';
import { ownersOf } from './container-owner.ts';
import { createDueSessions } from './due-sessions.ts';
import type { RecordKeeper } from './record-keeper.ts';
import { createRemoval } from './removal.ts';
import type { Sandbox } from './sandbox.ts';
import type { Sandboxes } from './sandboxes.ts';
import type { Slots } from './slot.ts';
import type { WarmPool } from './warm-pool.ts';

const reapMs = 500;
const sweepMs = 5_000;
const heartbeatMs = 10_000;

/** How long a sandbox that is to be closed may take to tell what is left to tell. */
const lastWordMs = 3_000;

export interface CaretakerDeps {
  readonly engine: Engine;
  readonly sandboxes: Sandboxes;
  readonly pool: WarmPool;
  readonly records: RecordKeeper;
  readonly slots: Slots;
  readonly installation: string;
  readonly log: Logger;
}

/** Keeps records, containers and directories in step: takes up what is owned, removes what nobody owns, ends what is due. */
export interface Caretaker {
  /** Compares records with containers once, as at start: everything is adopted, finished, lost or removed. */
  reconcile(): Promise<void>;
  start(): void;
  stop(): Promise<void>;
}

export function createCaretaker(deps: CaretakerDeps): Caretaker {
  const { engine, sandboxes, pool, records, slots, installation, log } = deps;
  const remove = createRemoval(engine);
  const due = createDueSessions({ sandboxes, records, slots, now: () => performance.now() });
  const timers: NodeJS.Timeout[] = [];
  let watch: { close(): void } | undefined;
  let sweeping: Promise<void> | undefined;

  /** At the start nothing is known of the records of this worker, so all are read. */
  async function reconcile(): Promise<void> {
    const mine = await records.mine();
    await bringIntoStep(mine, await listed(), slots.list());
  }

  /**
   * Of directories that have a sandbox now the records are not read, so they are left alone, also if that ends meanwhile: its
   * log may have to wait there for the archive.
   */
  async function reconcileDue(): Promise<void> {
    const doubtful = [...sandboxes.doubtful];
    const directories = slots.list().filter((name) => !sandboxes.holds(name) && !pool.holds(name));
    const containers = await listed();
    await bringIntoStep(await due.find(containers, directories), containers, directories);
    for (const sandbox of doubtful) {
      await tried({ session_id: sandbox.sessionId }, () => sandboxes.dropUnrecorded(sandbox));
    }
  }

  async function listed(): Promise<ContainerSummary[]> {
    return (await engine.list(installation)).filter(({ labels }) => labels[kindLabel] !== gradingKind);
  }

  async function bringIntoStep(
    mine: SessionRecord[],
    containers: ContainerSummary[],
    directories: string[],
  ): Promise<void> {
    due.leave(mine);
    await wakeForgotten(containers);
    const owners = ownersOf(containers, sandboxes.live, slots);
    const bySession = new Map([...owners].map(([container, owner]) => [owner, container]));
    const unheld = mine.filter(({ session }) => {
      if (session === undefined || isTerminal(session.state)) return false;
      return !records.owes(session.sessionId) && !sandboxes.holds(session.sessionId);
    });
    const stuck = new Set<string>();
    const taking = unheld.map(async (record) => {
      const sessionId = record.session?.sessionId ?? '';
      const taken = await tried({ session_id: sessionId }, () => takeUp(record, bySession.get(sessionId)));
      if (!taken) stuck.add(sessionId);
    });
    await Promise.all(taking);
    for (const record of mine) if (isUnarchived(record)) archive(record);
    // What could just now not be taken up would take as long again.
    await removeUnowned(new Map([...owners].filter(([, owner]) => !stuck.has(owner))), mine, directories);
  }

  /** What cannot be done now is left for the next sweep, and holds up neither the rest nor the worker. */
  async function tried(what: Record<string, string>, work: () => Promise<void> | void): Promise<boolean> {
    try {
      await work();
      return true;
    } catch (error) {
      log.error({ ...what, err: error }, 'left for the next sweep');
      return false;
    }
  }

  /** Brings one record without a sandbox here to where it belongs. */
  async function takeUp(record: SessionRecord, container: ContainerSummary | undefined): Promise<void> {
    const { project, session } = record;
    if (session === undefined) return;
    const { sessionId } = session;
    if (session.state === SessionState.CLOSING) {
      if (container?.state === 'running') {
        // Its guest may know what the worker before had no time to write.
        const adopting = sandboxes.adopt(record, container.id, lastWordMs);
        await adopting.catch((error) => log.warn({ session_id: sessionId, err: error }, 'a last word was not heard'));
        if (sandboxes.holds(sessionId)) {
          const { endReason, message } = session;
          return sandboxes.close(project, sessionId, { endReason, message });
        }
      }
      if (container !== undefined) await remove(container.id);
      await sandboxes.finish(record, { type: 'closed' });
      return;
    }
    const alive = container !== undefined && (container.state === 'running' || container.state === 'paused');
    // A worker that died while the engine started it left a guest that waits for its user ids, and for nobody.
    const made = alive && (session.state !== SessionState.CREATING || (await engine.isStarted(container.id)));
    if (session.state === SessionState.CREATING && !made) {
      if (container !== undefined) await remove(container.id);
      const created = sandboxes.create(project, sessionId);
      // Building a sample's image may take minutes; nobody waits for that here.
      if (session.sample === undefined) return created;
      created.catch((error) => log.warn({ session_id: sessionId, err: error }, 'a session could not be made'));
      return;
    }
    try {
      if (!alive) throw new Error('its container is gone');
      await sandboxes.adopt(record, container.id);
    } catch (error) {
      log.warn({ session_id: sessionId, err: error }, 'a session could not be taken up');
      if (sandboxes.holds(sessionId)) {
        const message = `the sandbox could not be taken up: ${(error as Error).message}`;
        await sandboxes.fail(project, sessionId, { endReason: SessionEndReason.SANDBOX_LOST, message });
        return;
      }
      if (container !== undefined) await remove(container.id);
      const message = 'the worker came back without this session: its container is gone';
      await sandboxes.finish(record, { type: 'lost', endReason: SessionEndReason.SANDBOX_LOST, message });
    }
  }

  /** One that the engine would not resume when it should have gone on; it may have been away. */
  async function wakeForgotten(containers: ContainerSummary[]): Promise<void> {
    const frozen = new Set(containers.filter(({ state }) => state === 'paused').map(({ id }) => id));
    const waking = [...sandboxes.live].map(async (sandbox) => {
      const { sessionId, file, paused, still } = sandbox;
      if (!frozen.has(file.containerId) || paused || still) return;
      log.warn({ session_id: sessionId }, 'resuming a sandbox that is paused for nobody');
      await tried({ session_id: sessionId }, () => sandboxes.wake(sandbox));
    });
    await Promise.all(waking);
  }

  function isUnarchived({ session }: SessionRecord): boolean {
    if (session?.transcriptState !== TranscriptState.PENDING) return false;
    return !records.owes(session.sessionId) && !sandboxes.holds(session.sessionId);
  }

  /** Nobody waits for it: the store may be slow, or full. */
  function archive(record: SessionRecord): void {
    sandboxes.finish(record).catch((error) => {
      log.warn({ session_id: record.session?.sessionId, err: error }, 'a session could not be archived');
    });
  }

  /** Whatever carries our label, or lies in our directory, and has no sandbox by now. The records were read before. */
  async function removeUnowned(
    owners: ReadonlyMap<ContainerSummary, string>,
    mine: SessionRecord[],
    directories: string[],
  ): Promise<void> {
    const removing = [...owners].map(async ([{ id }, owner]) => {
      if (sandboxes.holds(owner) || pool.holds(owner)) return;
      log.warn({ container: id }, 'removing a container that no session owns');
      await tried({ container: id }, () => remove(id));
    });
    await Promise.all(removing);
    const owned = new Set(owners.values());
    // One that ended since the records were read may still need its directory.
    for (const { session } of mine) if (session !== undefined && !isOver(session)) owned.add(session.sessionId);
    for (const name of directories) {
      if (sandboxes.holds(name) || pool.holds(name) || owned.has(name)) continue;
      await tried({ slot: name }, () => slots.open(name).remove());
    }
  }

  function reap(): void {
    const now = Date.now();
    for (const sandbox of sandboxes.live) {
      if (sandbox.executions.running > 0 || sandbox.paused || sandbox.still) sandbox.activeMs = now;
      const idle = sandbox.idleMs !== undefined && now - sandbox.activeMs > sandbox.idleMs;
      if (now < sandbox.expireMs && !idle) continue;
      const why =
        now >= sandbox.expireMs
          ? { endReason: SessionEndReason.TTL_EXPIRED, message: 'its time to live was up' }
          : { endReason: SessionEndReason.IDLE_TIMEOUT, message: 'it was idle for its idle timeout' };
      const { expireMs, idleMs } = sandbox;
      // Once is enough: closing takes longer than the next look.
      rest(sandbox);
      closeUnlessChanged(sandbox, { expireMs, idleMs }, why).catch((error) => {
        log.error({ session_id: sandbox.sessionId, err: error }, 'a session whose time was up could not be closed');
        sandbox.expireMs = now;
      });
    }
  }

  function rest(sandbox: Sandbox): void {
    sandbox.expireMs = Number.POSITIVE_INFINITY;
    sandbox.idleMs = undefined;
  }

  /** A change of its times is recorded first, and whoever wrote it may not have reached this worker. */
  async function closeUnlessChanged(
    sandbox: Sandbox,
    { expireMs, idleMs }: Pick<Sandbox, 'expireMs' | 'idleMs'>,
    why: EndCause,
  ): Promise<void> {
    const { project, sessionId } = sandbox;
    await sandboxes.refresh(project, sessionId).catch((error) => {
      log.warn({ session_id: sessionId, err: error }, 'the record of a session whose time is up could not be read');
    });
    const isRead = sandbox.expireMs !== Number.POSITIVE_INFINITY;
    if (isRead && (sandbox.expireMs !== expireMs || sandbox.idleMs !== idleMs)) return;
    rest(sandbox);
    await sandboxes.close(project, sessionId, why);
  }

  function sweep(): void {
    // One that waits for a container to go may take longer than the time between two.
    sweeping ??= records
      .settle()
      .catch((error) => log.warn({ err: error }, 'a session record is still owed'))
      .then(reconcileDue)
      .then(pool.fill)
      .catch((error) => log.warn({ err: error }, 'a sweep did not finish; the next one goes on'))
      .finally(() => {
        sweeping = undefined;
      });
  }

  function died(containerId: string): void {
    pool.died(containerId);
    for (const sandbox of sandboxes.live) {
      if (sandbox.file.containerId !== containerId) continue;
      const why = {
        endReason: SessionEndReason.SANDBOX_LOST,
        message: "the sandbox's container ended by itself or was removed",
      };
      sandboxes.fail(sandbox.project, sandbox.sessionId, why).catch((error) => {
        log.error({ session_id: sandbox.sessionId, err: error }, 'a dead sandbox could not be removed');
      });
    }
  }

  /** Deaths that were not told because nobody listened yet, or the engine was away. */
  async function lookForTheDead(): Promise<void> {
    // From before the list: what is made meanwhile need not be on it.
    const held = [...sandboxes.live, ...pool.waiting].map(({ file }) => file.containerId);
    const alive = new Set((await engine.list(installation)).filter(isAlive).map((container) => container.id));
    for (const id of held) if (id !== '' && !alive.has(id)) died(id);
  }

  return {
    reconcile,
    start() {
      const connected = () => {
        lookForTheDead().catch((error) => log.warn({ err: error }, 'containers could not be listed'));
      };
      watch = engine.watch(installation, died, connected);
      const heartbeat = () => {
        for (const sandbox of sandboxes.live) sandbox.executions.heartbeat();
      };
      pool.fill();
      timers.push(setInterval(reap, reapMs), setInterval(sweep, sweepMs), setInterval(heartbeat, heartbeatMs));
      for (const timer of timers) timer.unref();
    },
    async stop() {
      for (const timer of timers) clearInterval(timer);
      watch?.close();
      await sweeping;
    },
  };
}

function isAlive(container: ContainerSummary): boolean {
  return container.state === 'running' || container.state === 'paused';
}
