import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { DomainError } from '../../shared/domain-error.ts';
import { createSemaphore } from '../docker/semaphore.ts';
import type { ManifestOrder } from './manifest-thread.ts';

const heapMebibytes = 1_024;

/** What images consist of, each read once and kept. */
export interface Manifests {
  /** The file with the manifest of the image; made now if it never was, which takes seconds. */
  of(imageId: string): Promise<string>;
  /** For an image that is gone. */
  forget(imageId: string): void;
  /** Forgets all but these. */
  keepOnly(imageIds: ReadonlySet<string>): void;
}

export interface ManifestDeps {
  readonly directory: string;
  readonly socketPath: string;
}

export function createManifests({ directory, socketPath }: ManifestDeps): Manifests {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const making = new Map<string, Promise<void>>();
  const inTurn = createSemaphore(1);

  const make = (imageId: string, file: string): Promise<void> => {
    const running = making.get(imageId);
    if (running !== undefined) return running;
    const made = inTurn(() => runThread({ socketPath, imageId, file })).finally(() => making.delete(imageId));
    making.set(imageId, made);
    return made;
  };
  return {
    async of(imageId) {
      const file = join(directory, fileName(imageId));
      if (!existsSync(file)) await make(imageId, file);
      return file;
    },
    forget: (imageId) => rmSync(join(directory, fileName(imageId)), { force: true }),
    keepOnly(imageIds) {
      const kept = new Set([...imageIds].map(fileName));
      for (const name of readdirSync(directory)) if (!kept.has(name)) rmSync(join(directory, name), { force: true });
    },
  };
}

function fileName(imageId: string): string {
  const hex = /^sha256:([0-9a-f]{64})$/.exec(imageId)?.[1];
  if (hex === undefined) throw new DomainError('INTERNAL', `"${imageId}" is no image id; expected sha256:<hex>`);
  return hex;
}

function runThread(order: ManifestOrder): Promise<void> {
  return new Promise((resolve, reject) => {
    const thread = new Worker(new URL('./manifest-thread.ts', import.meta.url), {
      workerData: order,
      resourceLimits: { maxOldGenerationSizeMb: heapMebibytes },
    });
    thread.on('error', (error: Error) => {
      const message = `the manifest of image ${order.imageId} could not be made: ${error.message}`;
      reject(new DomainError('ENGINE_FAILED', message, {}, { cause: error }));
    });
    thread.on('exit', () => resolve());
  });
}
