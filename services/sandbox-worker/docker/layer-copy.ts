import { spawn } from 'node:child_process';
import { DomainError } from '../../shared/domain-error.ts';

/** A copy that takes longer than this is given up. */
const longestMs = 600_000;
const saidLimit = 4_096;

/**
 * Copies the upper directory of one overlay into that of another over the same image, which has not started yet: owners,
 * modes, times, links, holes, whiteouts and the attributes that mark opaque directories. `cp` follows no link, takes any
 * name and any depth, and the tree must stand still meanwhile.
 */
export function copyLayer(from: string, to: string): Promise<void> {
  return new Promise((resolve, reject) => {
    // It ends with this process: one that went on writing would keep the disk from being freed.
    const copy = spawn('setpriv', ['--pdeathsig', 'KILL', 'cp', '--archive', '--', `${from}/.`, `${to}/`], {
      env: { PATH: process.env.PATH ?? '/usr/bin:/bin', LC_ALL: 'C' },
      stdio: ['ignore', 'ignore', 'pipe'],
      timeout: longestMs,
      killSignal: 'SIGKILL',
    });
    let said = '';
    copy.stderr.on('data', (chunk: Buffer) => {
      if (said.length < saidLimit) said += chunk.toString('latin1');
      // It would try every file that is left.
      if (said.includes('No space left on device')) copy.kill('SIGKILL');
    });
    copy.on('error', (error) => reject(new Error(`cp could not be run: ${error.message}`, { cause: error })));
    copy.on('close', (code, signal) => {
      if (code === 0) resolve();
      else if (said.includes('No space left on device')) reject(tooLarge());
      else reject(new Error(`copying the files of the source ended with ${signal ?? code}: ${said.trim()}`));
    });
  });
}

function tooLarge(): DomainError {
  const message = "limits.disk_bytes: the source's files do not fit into the fork's disk; ask for a larger one";
  return new DomainError('LIMIT_EXCEEDED', message, { field: 'limits.disk_bytes' });
}
