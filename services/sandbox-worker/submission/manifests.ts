import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { DomainError } from '../../shared/domain-error.ts';
import { createSemaphore } from '../docker/semaphore.ts';
import type { ManifestOrder } from './manifest-process.ts';

const heapMebibytes = 1_024;
/** Of what a process that failed has said, its end. */
const saidCharacters = 1_000;

/** What images consist of, each read once and kept. */
export interface Manifests {
  /** The file with the manifest of the image; made now if it never was, which takes seconds. */
  of(imageId: string): Promise<string>;
  /** For an image that is gone. */
  forget(imageId: string): void;
  /** Forgets all but these, and what was not finished; not to be called while one is being made. */
  keepOnly(imageIds: ReadonlySet<string>): void;
}

export interface ManifestDeps {
  readonly directory: string;
  readonly socketPath: string;
  /** Whose containers it makes to read images. */
  readonly installation?: string;
}

export function createManifests({ directory, socketPath, installation = '' }: ManifestDeps): Manifests {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const making = new Map<string, Promise<void>>();
  const inTurn = createSemaphore(1);

  const make = (imageId: string, file: string): Promise<void> => {
    const running = making.get(imageId);
    if (running !== undefined) return running;
    const made = inTurn(() => runProcess({ socketPath, installation, imageId, file })).finally(() =>
      making.delete(imageId),
    );
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

function runProcess(order: ManifestOrder): Promise<void> {
  const script = fileURLToPath(new URL('./manifest-process.ts', import.meta.url));
  const flags = ['--disable-warning=ExperimentalWarning', `--max-old-space-size=${heapMebibytes}`];
  return new Promise((resolve, reject) => {
    execFile(process.execPath, [...flags, script, JSON.stringify(order)], (error, _stdout, stderr) => {
      if (error === null) return resolve();
      const said = stderr.trim().slice(-saidCharacters) || `its process ended with ${error.signal ?? error.code}`;
      const message = `the manifest of image ${order.imageId} could not be made: ${said}`;
      reject(new DomainError('ENGINE_FAILED', message, {}, { cause: error }));
    });
  });
}
