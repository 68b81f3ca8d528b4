import { spawn } from 'node:child_process';

const timeoutMs = 30_000;
const outputLimit = 4 * 1024 * 1024;

/** Runs a system program with the given input to its end; throws with what it said on stderr. */
export function runWithInput(file: string, args: readonly string[], input = ''): Promise<string> {
  // Daemons often start without the sbin directories, where ip and iptables live.
  const env = { PATH: `${process.env.PATH ?? '/usr/bin:/bin'}:/usr/local/sbin:/usr/sbin:/sbin`, LC_ALL: 'C' };
  return new Promise((resolve, reject) => {
    const child = spawn(file, args, { env, timeout: timeoutMs });
    const said = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr'] as const) {
      child[name].on('data', (chunk: Buffer) => {
        if (said[name].length < outputLimit) said[name] += chunk.toString();
      });
    }
    const failed = (why: string) => reject(new Error(`${file} failed: ${said.stderr.trim() || why}`));
    child.on('error', (error) => failed(error.message));
    child.on('close', (code, signal) => (code === 0 ? resolve(said.stdout) : failed(`ended with ${signal ?? code}`)));
    child.stdin.on('error', () => {});
    child.stdin.end(input);
  });
}
