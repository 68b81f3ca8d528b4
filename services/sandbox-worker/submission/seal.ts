import { randomBytes } from 'node:crypto';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DomainError } from '../../shared/domain-error.ts';
import type { Engine } from '../docker/engine.ts';
import { createSemaphore } from '../docker/semaphore.ts';
import type { Manifests } from './manifests.ts';
import type { InvalidFinding, SubmissionRules } from './rules.ts';
import { contentsOf, type SealOrder } from './seal-work.ts';
import type { SubmissionStore } from './submission-store.ts';
import type { SubmissionThreads } from './submission-threads.ts';

/** The session whose changes are sealed. */
export interface SealSource {
  readonly containerId: string;
  /** Whose session it is: projects take turns. */
  readonly project?: string;
  /** Does the work while nothing in the container moves. */
  whileStill<T>(work: () => Promise<T>): Promise<T>;
}

export interface SealedSubmission {
  readonly kind: 'sealed';
  /** `sha256:<hex>` of the stored file; equal for equal changes. */
  readonly digest: string;
  /** The image that it is a difference from. */
  readonly imageId: string;
  /** Of all files together. */
  readonly bytes: number;
  /** Files, links, directories and deletions together. */
  readonly files: number;
  readonly deletions: number;
  readonly archiveBytes: number;
  /** The digest of a second one, of everything that changed in the whole file system; only where it was asked for. */
  readonly whole?: string;
  /** How long the session was held up, from before the pause to after the resumption. */
  readonly stillMs: number;
  /** Of that, how long the copy took. */
  readonly copyMs: number;
}

export interface InvalidSealing {
  readonly kind: 'invalid';
  readonly imageId: string;
  readonly finding: InvalidFinding;
  readonly stillMs: number;
}

export interface Sealer {
  /**
   * Stores what differs from the image below the working directory, and with `whole` also what differs anywhere, as it was
   * at the same moment. Whatever happens, the session goes on. The signal ends it, and nothing is left of it then.
   */
  seal(
    source: SealSource,
    rules: SubmissionRules,
    store: Pick<SubmissionStore, 'put'>,
    how?: SealHow,
  ): Promise<SealedSubmission | InvalidSealing>;
}

export interface SealHow {
  /** The whole file system too. */
  readonly whole?: boolean;
  readonly signal?: AbortSignal | undefined;
}

export interface SealDeps {
  readonly engine: Pick<Engine, 'layer' | 'archived' | 'imageOf' | 'hasLayers'>;
  readonly manifests: Manifests;
  readonly threads: SubmissionThreads;
  /** Of this worker alone; emptied now. In the same file system as a local store. */
  readonly stagingDirectory: string;
  /** For the copy. Longer is an infrastructure failure: the limits bound what an agent can ask for. */
  readonly timeoutMs?: number;
}

/** The thread watches the time itself; this is for a disk that does not answer. */
const graceMs = 5_000;
/**
 * Submissions that are copied and uploaded at one time, and of one project: each takes its size on this disk, and all
 * uploads share the connection that this worker's heartbeat, records and jobs go by.
 */
const sealsAtOnce = 4;
const sealsOfProject = 2;

export function createSealer(deps: SealDeps): Sealer {
  const { engine, manifests, threads, stagingDirectory, timeoutMs = 60_000 } = deps;
  const longestMs = timeoutMs + graceMs;
  const inTurn = createSemaphore(sealsAtOnce, () => sealsOfProject);
  rmSync(stagingDirectory, { recursive: true, force: true });
  mkdirSync(stagingDirectory, { recursive: true, mode: 0o700 });

  const filesOf = async (id: string): Promise<SealOrder['layer']> =>
    engine.hasLayers ? engine.layer(id) : { ...engine.archived(id), imageId: await engine.imageOf(id) };

  /** The thread is ready before the pause, and the digest is made after it. */
  const sealWith = (
    source: SealSource,
    order: SealOrder,
    signal: AbortSignal,
  ): Promise<SealedSubmission | InvalidSealing> =>
    threads.use(
      async (thread) => {
        const { imageId } = order.layer;
        const next = () => thread.next(longestMs, signal);
        thread.send({ kind: 'seal', order });
        await next();
        const began = performance.now();
        const { copied, copyMs } = await source.whileStill(async () => {
          // It may have waited long for the session's turn.
          signal.throwIfAborted();
          const copyBegan = performance.now();
          thread.send({ kind: 'go' });
          const news = await next();
          return { copied: news, copyMs: performance.now() - copyBegan };
        });
        const stillMs = performance.now() - began;
        if (copied.kind === 'invalid') return { kind: 'invalid', imageId, finding: copied.finding, stillMs };
        const sealed = await next();
        if (copied.kind !== 'copied' || sealed.kind !== 'sealed') throw new Error('its thread spoke out of turn');
        const [first, second] = sealed.parts;
        const [changes] = copied.parts;
        if (first === undefined || changes === undefined) throw new Error('its thread sealed nothing');
        const whole = second && { whole: second.digest };
        return { kind: 'sealed', ...changes, ...first, ...whole, imageId, stillMs, copyMs };
      },
      source.project,
      signal,
    );

  return {
    async seal(source, rules, store, { whole = false, signal = never } = {}) {
      const layer = await filesOf(source.containerId);
      const manifest = await manifests.of(layer.imageId);
      const staged = join(stagingDirectory, randomBytes(16).toString('hex'));
      const stagedWhole = `${staged}.whole`;
      const parts = [{ rules, staged }];
      if (whole) parts.push({ rules: { ...rules, whole: true }, staged: stagedWhole });
      const sealAndStore = async (): Promise<SealedSubmission | InvalidSealing> => {
        try {
          const result = await sealWith(source, { layer, manifest, parts, timeoutMs }, signal);
          if (result.kind === 'sealed') await store.put(result.digest, staged, signal);
          if (result.kind === 'sealed' && result.whole !== undefined) {
            await store.put(result.whole, stagedWhole, signal);
          }
          return result;
        } finally {
          // With what a thread that was ended has left beside them.
          for (const file of [staged, stagedWhole]) {
            for (const left of [file, contentsOf(file)]) rmSync(left, { recursive: true, force: true });
          }
        }
      };
      try {
        return await inTurn(sealAndStore, source.project, signal);
      } catch (error) {
        signal.throwIfAborted();
        throw failed(error);
      }
    },
  };
}

/** For a caller that waits for the end, whatever happens. */
const never = new AbortController().signal;

function failed(error: unknown): DomainError {
  if (error instanceof DomainError) return error;
  const said = error instanceof Error ? error.message : String(error);
  return new DomainError('INTERNAL', `sealing a submission failed: ${said}`, {}, { cause: error });
}
