import { create } from '@bufbuild/protobuf';
import { type SessionRecord, SessionRecordSchema } from '../../../gen/assay/internal/v1/records_pb.js';
import type { Session } from '../../../gen/assay/v1/session_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { Logger } from '../../shared/log.ts';
import { advance } from '../../shared/session-state.ts';
import type { Stored } from '../../shared/store/session-store.ts';
import type { ContainerLimits, Engine, SandboxImage } from '../docker/engine.ts';
import type { Meter } from '../meter.ts';
import type { Networks } from '../network/networks.ts';
import { environmentOf } from './environment.ts';
import type { RecordKeeper } from './record-keeper.ts';
import { completeLimits, limitsOf, type Sandbox } from './sandbox.ts';
import type { SessionImages } from './session-images.ts';
import type { WarmPool } from './warm-pool.ts';

/** When a container gets its session's name: it is for people to see, and the first command comes first. */
const renameMs = 150;

export interface WarmStartDeps {
  readonly engine: Engine;
  readonly networks: Networks;
  readonly pool: WarmPool;
  readonly records: RecordKeeper;
  readonly meter: Meter;
  readonly log: Logger;
  readonly baseImage: string;
  readonly defaultLimits: ContainerLimits;
  readonly images: SessionImages;
  readonly environmentFor: (session: Session) => Readonly<Record<string, string>>;
  readonly hasRoomFor: (sessionId: string, project: string) => boolean;
  /** Whether the project waits for a container that is being made: then it leaves the last warm sandbox to the others. */
  readonly waitsForEngine: (project: string) => boolean;
  /** Whether the project's sessions have to stand still: one that is made for it does so before anybody is told of it. */
  readonly standsStill: (project: string) => boolean;
  /** Counts the sandbox among those of the worker; from then on the sweep leaves it alone. */
  readonly own: (sandbox: Sandbox, sessionId: string) => void;
  readonly owns: (sandbox: Sandbox) => boolean;
  readonly follow: (sandbox: Sandbox, session: Session) => void;
  readonly discard: (sandbox: Sandbox, message: string) => Promise<void>;
  /** Has the sweep find out whether the sandbox's session has a record that names this worker. */
  readonly doubt: (sandbox: Sandbox) => void;
}

/** Gives a sandbox of the pool to a session and writes its first record, READY. Undefined: nothing happened. */
export type WarmStart = (record: SessionRecord) => Promise<Stored<SessionRecord> | undefined>;

export function createWarmStart(deps: WarmStartDeps): WarmStart {
  const { engine, networks, pool, records, log } = deps;

  type Taken = { sandbox: Sandbox; image: SandboxImage } | undefined;

  async function take(project: string, session: Session): Promise<Taken> {
    if (!deps.hasRoomFor(session.sessionId, project)) return undefined;
    networks.check(session.network);
    const found = await fitting(project, session);
    if (found === undefined) pool.missed();
    else deps.own(found.sandbox, session.sessionId);
    return found;
  }

  async function fitting(project: string, session: Session): Promise<Taken> {
    if (pool.size === 0) return undefined;
    // A tag can move, so the engine is asked; not that of a sample, nor that of the base image, which is the operator's.
    const known = session.image === '' ? pool.known(deps.images.nameOf(session)) : undefined;
    // The image of a sample that the pool does not have may have to be built, and that takes long.
    if (known === undefined && session.sample !== undefined) return undefined;
    const image = known ?? (await deps.images.of(session));
    // Asked after the engine, which takes its time: no session begins to run after all of the project were paused.
    if (deps.standsStill(project)) return undefined;
    const others = deps.waitsForEngine(project) ? 1 : 0;
    const sandbox = pool.take(image, completeLimits(session.limits, deps.defaultLimits), others);
    return sandbox && { sandbox, image };
  }

  function rename(sandbox: Sandbox): void {
    const { file, sessionId } = sandbox;
    if (!deps.owns(sandbox)) return;
    engine.rename(file.containerId, `assay-${sessionId}`).catch((error) => {
      log.debug({ session_id: sessionId, err: error }, 'a container kept its first name');
    });
  }

  function settleIn(sandbox: Sandbox, session: Session, began: number): void {
    deps.meter.sandboxMade('warm', 'ready', (performance.now() - began) / 1_000);
    deps.follow(sandbox, session);
    sandbox.log.ready();
    setTimeout(rename, renameMs, sandbox).unref();
  }

  return async (record) => {
    const { session } = record;
    const began = performance.now();
    const taken = session === undefined ? undefined : await take(record.project, session);
    if (session === undefined || taken === undefined) return undefined;
    const { sandbox, image } = taken;
    try {
      const given = giveTo(sandbox, record, image, deps.environmentFor(session));
      await networks.attach(session.sessionId, session.network, sandbox);
      const stored = await records.add(given);
      if (stored === undefined) await deps.discard(sandbox, 'the session has a record already');
      else settleIn(sandbox, session, began);
      return stored;
    } catch (error) {
      // Whether the record was written is not known: the sandbox waits until the store answers (dropUnrecorded).
      const open = error instanceof DomainError && error.reason === 'STORE_UNAVAILABLE';
      if (open) deps.doubt(sandbox);
      else await deps.discard(sandbox, 'the sandbox could not be given to its session');
      throw error;
    }
  };
}

/**
 * Makes a sandbox of the pool the session's own and returns the record that says so. From here on a slot of the session's
 * name owns the container: a worker that dies before the record is written finds none for it, and removes both.
 */
function giveTo(
  sandbox: Sandbox,
  { project, session, ...rest }: SessionRecord,
  image: SandboxImage,
  env: Readonly<Record<string, string>>,
): SessionRecord {
  if (session === undefined) throw new TypeError('a session record without a session');
  const owner = { project, sessionId: session.sessionId, env: environmentOf(image, env) };
  Object.assign(sandbox.file, owner);
  sandbox.slot.giveTo(owner);
  const ready = advance(session, { type: 'ready', limits: limitsOf(sandbox), warm: true });
  return create(SessionRecordSchema, { ...rest, project, session: ready ?? session });
}
