import { randomBytes } from 'node:crypto';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { DomainError } from '../../shared/domain-error.ts';
import type { Engine } from '../docker/engine.ts';
import type { Manifests } from './manifests.ts';
import type { InvalidFinding, SubmissionRules } from './rules.ts';
import type { SealNews, SealOrder } from './seal-thread.ts';
import type { SubmissionStore } from './submission-store.ts';

/** The session whose changes are sealed. */
export interface SealSource {
  readonly containerId: string;
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
  /** Stores what differs from the image below the working directory. Whatever happens, the session goes on. */
  seal(source: SealSource, rules: SubmissionRules): Promise<SealedSubmission | InvalidSealing>;
}

export interface SealDeps {
  readonly engine: Pick<Engine, 'layer'>;
  readonly manifests: Manifests;
  readonly store: SubmissionStore;
  /** Of this worker alone; emptied now. In the same file system as a local store. */
  readonly stagingDirectory: string;
  /** For the copy. Longer is an infrastructure failure: the limits bound what an agent can ask for. */
  readonly timeoutMs?: number;
}

const heapMebibytes = 1_024;
/** The thread watches the time itself; this is for a disk that does not answer. */
const graceMs = 5_000;

export function createSealer(deps: SealDeps): Sealer {
  const { engine, manifests, store, stagingDirectory, timeoutMs = 60_000 } = deps;
  rmSync(stagingDirectory, { recursive: true, force: true });
  mkdirSync(stagingDirectory, { recursive: true, mode: 0o700 });
  return {
    async seal(source, rules) {
      const layer = await engine.layer(source.containerId);
      const { imageId } = layer;
      const manifest = await manifests.of(imageId);
      const staged = join(stagingDirectory, randomBytes(16).toString('hex'));
      const thread = startThread({ layer, manifest, rules, staged, timeoutMs });
      try {
        await thread.next();
        const began = performance.now();
        const { copied, copyMs } = await source.whileStill(async () => {
          const copyBegan = performance.now();
          const news = await thread.go(timeoutMs + graceMs);
          return { copied: news, copyMs: performance.now() - copyBegan };
        });
        const stillMs = performance.now() - began;
        if (copied.kind === 'invalid') return { kind: 'invalid', imageId, finding: copied.finding, stillMs };
        const sealed = await thread.next();
        if (copied.kind !== 'copied' || sealed.kind !== 'sealed') throw failed(new Error('it spoke out of turn'));
        await store.put(sealed.digest, staged);
        return { ...copied, ...sealed, imageId, stillMs, copyMs };
      } finally {
        await thread.end();
        rmSync(staged, { force: true });
      }
    },
  };
}

interface SealThread {
  next(): Promise<SealNews>;
  go(withinMs: number): Promise<SealNews>;
  end(): Promise<void>;
}

/** A thread of its own: it starts before the pause, reads as fast as it can, and holds up no stream of the worker. */
function startThread(order: SealOrder): SealThread {
  const thread = new Worker(new URL('./seal-thread.ts', import.meta.url), {
    workerData: order,
    resourceLimits: { maxOldGenerationSizeMb: heapMebibytes },
  });
  const news: SealNews[] = [];
  let failure: Error | undefined;
  let wake = (): void => {};
  thread.on('message', (said: SealNews) => {
    news.push(said);
    wake();
  });
  const fail = (error: Error): void => {
    failure ??= error;
    wake();
  };
  thread.on('error', fail);
  thread.on('exit', () => fail(new Error('it ended early')));

  const next = async (): Promise<SealNews> => {
    for (;;) {
      const said = news.shift();
      if (said !== undefined) return said;
      if (failure !== undefined) throw failed(failure);
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  };
  return {
    next,
    async go(withinMs) {
      const timer = setTimeout(() => fail(new Error(`it took more than ${withinMs} ms`)), withinMs);
      try {
        thread.postMessage('go');
        return await next();
      } finally {
        clearTimeout(timer);
      }
    },
    async end() {
      await thread.terminate();
    },
  };
}

function failed(error: Error): DomainError {
  return new DomainError('INTERNAL', `sealing a submission failed: ${error.message}`, {}, { cause: error });
}
