import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, copyFile, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { inject } from 'vitest';
import { runDirectory } from '../run.ts';
import { createTestWorker, type TestWorker } from './test-worker.ts';

export const run = promisify(execFile);
export const SECRET = '0123456789abcdef'.repeat(4);

export interface GuestBuild {
  /** Has the guest that set-up built, which the services run too. */
  readonly directory: string;
  /** Builds something else of its sources there. */
  make(target: string, ...variables: string[]): Promise<string>;
  remove(): Promise<void>;
}

export interface GuestProcess {
  readonly worker: TestWorker;
  readonly process: ChildProcess;
  readonly pid: number;
  stop(): Promise<void>;
}

/** A directory that every user may read, with the guest in it. */
export async function createGuestBuild(): Promise<GuestBuild> {
  const directory = await mkdtemp(join(runDirectory(), 'guest-'));
  await chmod(directory, 0o755);
  await copyFile(inject('setup').guestPath, join(directory, 'guest'));
  const sources = join(import.meta.dirname, '../../guest');
  return {
    directory,
    make: async (target, ...variables) => {
      await run('gcc', ['--version']).catch(() => {
        throw new Error(
          'gcc was not found, which builds what tests the guest: type `apt-get install gcc make libc6-dev`',
        );
      });
      const { stdout } = await run('make', ['-C', sources, `BUILD=${directory}`, ...variables, target]);
      return stdout;
    },
    remove: () => rm(directory, { recursive: true, force: true }),
  };
}

export interface GuestOptions {
  /** As PID 1 of a pid namespace, which needs root. */
  readonly init?: boolean;
  readonly uid?: number;
  /** Less than 0 needs root. */
  readonly oomScoreAdj?: number;
  readonly program?: string;
}

let sockets = 0;

/** A guest as an ordinary process, welcomed and idle. */
export async function startGuest(build: GuestBuild, options: GuestOptions = {}): Promise<GuestProcess> {
  const path = join(build.directory, `${process.pid}-${sockets++}.sock`);
  const worker = await createTestWorker(path);
  await chmod(path, 0o777);
  const shells = path.replace(/sock$/, 'shells');
  await mkdir(shells);
  await chmod(shells, 0o777);
  const command = [join(build.directory, options.program ?? 'guest'), path];
  if (options.init) command.unshift('unshare', '--pid', '--fork', '--mount-proc', '--kill-child');
  const { uid, oomScoreAdj } = options;
  if (uid !== undefined) command.unshift('setpriv', `--reuid=${uid}`, `--regid=${uid}`, '--clear-groups', '--');
  if (oomScoreAdj !== undefined) command.unshift('choom', '-n', String(oomScoreAdj), '--');
  const [program, ...rest] = command as [string, ...string[]];
  const child = spawn(program, rest, {
    env: {
      ASSAY_GUEST_SECRET: SECRET,
      ASSAY_GUEST_SHELLS: shells,
      PATH: process.env.PATH,
      ASAN_OPTIONS: 'detect_leaks=0',
    },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const died = once(child, 'exit');
  await worker.connected(1);
  return {
    worker,
    process: child,
    pid: child.pid ?? 0,
    stop: async () => {
      child.kill('SIGKILL');
      await died;
      await worker.close();
    },
  };
}
