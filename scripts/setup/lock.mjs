import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { SetupFailure } from './failure.mjs';
import { findProgram } from './program.mjs';

const conflictStatus = 75;

/**
 * Takes an exclusive lock on a file and resolves to a handle with `release()`, or to undefined when somebody else
 * holds it and `wait` is false. The kernel keeps the lock for a child of ours that lives as long as its standard
 * input: it is freed however we end, and no stale lock can be left.
 */
export async function takeLock(file, { wait, purpose }) {
  const program = findProgram('flock');
  if (!program) throw new SetupFailure('flock was not found (it belongs to util-linux)', 'apt-get install util-linux');
  const mode = wait ? [] : ['--nonblock', '--conflict-exit-code', String(conflictStatus)];
  const holder = spawn(program, ['--exclusive', ...mode, file, 'sh', '-c', 'echo held; exec cat >/dev/null'], {
    // A group of its own: Ctrl-C must not free the lock while we are still closing.
    detached: true,
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  holder.stdin.on('error', () => {});
  const first = await Promise.race([once(holder.stdout, 'data'), once(holder, 'close')]);
  if (!Buffer.isBuffer(first[0])) {
    if (first[0] === conflictStatus) return undefined;
    throw new SetupFailure(`the lock ${file} could not be taken (flock ended with ${first[1] ?? first[0]})`);
  }
  writeFileSync(file, `${JSON.stringify({ pid: process.pid, purpose })}\n`, { mode: 0o600 });
  // The holder must not keep this process alive by itself.
  holder.unref();
  holder.stdin.unref?.();
  holder.stdout.unref?.();
  return {
    async release() {
      if (holder.exitCode !== null || holder.signalCode !== null) return;
      const closed = once(holder, 'exit');
      holder.ref();
      holder.stdin.end();
      await closed;
    },
  };
}

/** Who wrote the lock file last, as far as can be told. */
export function lockHolder(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    return undefined;
  }
}
