import { constants } from 'node:os';
import { describeEnd, endOfProgram } from '../program/program.ts';

const saidCharacters = 2_000;
/** Of files that somebody has moved, removed or replaced meanwhile, and of directories that hold a file of another user. */
const expected = /: (No such file or directory|Directory not empty|Not a directory|Too many levels of symbolic links)$/;

export interface RemovalOptions {
  /** A removal that takes longer than this is given up; one that has no time at all is not begun, */
  readonly longestMs: number;
  /** with this error. */
  readonly late: () => Error;
  /** Nobody needs the directory any more: its reason is thrown. */
  readonly signal: AbortSignal;
}

/**
 * Removes every file of a user below a directory, in its file system. Somebody may move files there meanwhile: nothing of
 * another user is ever removed, and no link is followed, but then something may be missed. Throws where files cannot be
 * looked at or removed for another reason. When this has thrown nothing is removed any more.
 */
export async function removeFilesOf(uid: number, directory: string, options?: RemovalOptions): Promise<void> {
  options?.signal.throwIfAborted();
  if (options !== undefined && options.longestMs <= 0) throw options.late();
  const end = await endOfProgram('find', [directory, '-xdev', '-uid', String(uid), '-delete'], {
    ...(options === undefined ? {} : { timeoutMs: options.longestMs, signal: options.signal }),
  });
  options?.signal.throwIfAborted();
  if (options !== undefined && end.signal === constants.signals.SIGKILL) throw options.late();
  const unexpected = end.stderr.split('\n').filter((line) => line !== '' && !expected.test(line));
  if (end.code === 0 || (end.code === 1 && unexpected.length === 0)) return;
  // Paths of the host: for the log, not for the record of a session.
  const said = new Error(unexpected.join('\n').slice(0, saidCharacters));
  throw new Error(`find, which removes the files of user ${uid}, ${describeEnd(end)}`, { cause: said });
}

/** Removes a directory with all that is in it, whatever its names and its depth. */
export async function removeTree(path: string): Promise<void> {
  const end = await endOfProgram('rm', ['-rf', '--one-file-system', '--', path]);
  if (end.code !== 0) throw new Error(`rm of ${path} ${describeEnd(end)}`);
}
