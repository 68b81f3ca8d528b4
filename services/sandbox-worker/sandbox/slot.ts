import { appendFileSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { type SandboxFile, SandboxFileSchema } from '../../../gen/assay/internal/v1/journal_pb.js';
import type { Stream } from '../guest/frame.ts';
import { placeProgram } from './placed-program.ts';

/** Where the slot's `run` directory is mounted in the sandbox. */
const mountPoint = '/run/assay';

/**
 * A sandbox's directory on the host. `run` is mounted read-only in the container; the rest is the worker's alone:
 * the description to take up again, the journal, the spool, the disk.
 */
export interface Slot {
  readonly runDirectory: string;
  readonly diskDirectory: string;
  readonly journalPath: string;
  /** Relative to the worker's working directory: a socket's path may not be long. */
  readonly socketPath: string;
  spoolPath(number: bigint, stream: Stream): string;
  placeScript(number: bigint, text: Uint8Array): string;
  removeScript(number: bigint): void;
  save(file: SandboxFile): void;
  /** Gives the directory to a session, with what is its own in the description. What is open or mounted in it stays so. */
  giveTo(owner: Pick<SandboxFile, 'project' | 'sessionId' | 'env'>): void;
  load(): SandboxFile;
  remove(): void;
}

/** All slots of a worker, by the session that has them, or a name of their own until one does. The worker's working directory is its data directory. */
export interface Slots {
  make(name: string): Slot;
  open(name: string): Slot;
  list(): string[];
}

export function createSlots(dataDirectory: string, guestPath: string): Slots {
  const root = join(dataDirectory, 's');
  mkdirSync(root, { recursive: true, mode: 0o700 });

  function slot(name: string): Slot {
    let directory = join(root, name);
    return {
      get runDirectory() {
        return join(directory, 'run');
      },
      get diskDirectory() {
        return join(directory, 'disk');
      },
      get journalPath() {
        return join(directory, 'journal');
      },
      get socketPath() {
        return join(relative(dataDirectory, directory), 'run', 'guest.sock');
      },
      spoolPath: (number, stream) => join(directory, 'spool', `${number}.${stream === 1 ? 'out' : 'err'}`),
      placeScript(number, text) {
        writeFileSync(join(directory, 'run', `script-${number}`), text, { mode: 0o444 });
        return `${mountPoint}/script-${number}`;
      },
      removeScript: (number) => rmSync(join(directory, 'run', `script-${number}`), { force: true }),
      save(file) {
        const described = join(directory, 'sandbox');
        writeFileSync(`${described}.new`, toBinary(SandboxFileSchema, file), { mode: 0o600 });
        renameSync(`${described}.new`, described);
      },
      giveTo(owner) {
        const target = join(root, owner.sessionId);
        // Of two messages in one file the later goes over the earlier. Only the renaming makes it count, so it may break off.
        appendFileSync(join(directory, 'sandbox'), toBinary(SandboxFileSchema, create(SandboxFileSchema, owner)));
        renameSync(directory, target);
        directory = target;
      },
      load: () => fromBinary(SandboxFileSchema, readFileSync(join(directory, 'sandbox'))),
      remove: () => rmSync(directory, { recursive: true, force: true, maxRetries: 3 }),
    };
  }

  return {
    open: slot,
    list: () => readdirSync(root),
    make(name) {
      const made = slot(name);
      made.remove();
      mkdirSync(join(root, name, 'spool'), { recursive: true, mode: 0o700 });
      mkdirSync(made.diskDirectory, { mode: 0o700 });
      mkdirSync(made.runDirectory, { mode: 0o755 });
      placeProgram(guestPath, join(made.runDirectory, 'guest'));
      return made;
    },
  };
}
