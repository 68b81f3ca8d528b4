import { spawn } from 'node:child_process';

const longestMs = 60_000;

/**
 * Removes every file of a user below a directory, in its file system. Somebody may move files there meanwhile: nothing of
 * another user is ever removed, and no link is followed, but then something may be missed.
 */
export async function removeFilesOf(uid: number, directory: string): Promise<void> {
  await run('find', [directory, '-xdev', '-uid', String(uid), '-delete']);
}

/** Removes a directory with all that is in it, whatever its names and its depth. */
export async function removeTree(path: string): Promise<void> {
  const code = await run('rm', ['-rf', '--one-file-system', '--', path]);
  if (code !== 0) throw new Error(`rm of ${path} ended with ${code}`);
}

function run(program: string, args: readonly string[]): Promise<number | null> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: 'ignore', timeout: longestMs, killSignal: 'SIGKILL' });
    child.on('error', reject);
    child.on('close', (code) => resolve(code));
  });
}
