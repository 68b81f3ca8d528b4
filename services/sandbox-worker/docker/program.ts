import { execFile } from 'node:child_process';

const timeoutMs = 60_000;
const outputLimit = 64 * 1024;

/** Runs a system program to its end; throws with what it said on stderr. */
export function runProgram(file: string, args: readonly string[]): Promise<string> {
  // Daemons often start without the sbin directories, where mkfs lives.
  const env = { PATH: `${process.env.PATH ?? '/usr/bin:/bin'}:/usr/local/sbin:/usr/sbin:/sbin`, LC_ALL: 'C' };
  return new Promise((resolve, reject) => {
    execFile(file, args, { env, timeout: timeoutMs, maxBuffer: outputLimit }, (error, stdout, stderr) => {
      if (!error) resolve(stdout);
      else reject(new Error(`${file} failed: ${stderr.trim() || error.message}`, { cause: error }));
    });
  });
}
