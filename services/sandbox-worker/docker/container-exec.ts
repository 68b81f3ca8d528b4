import type { Duplex } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import type Docker from 'dockerode';
import { guestCommand } from './container-options.ts';
import { engineFailed, saidBy, statusOf } from './engine-failure.ts';
import { createDemuxer } from './exec-output.ts';
import { type HostIds, hostIdsOf, toHostId, writeIdMaps } from './host-ids.ts';

export interface ExecSpec {
  readonly args: readonly string[];
  /** All of them: nothing of the container's own variables is given on. */
  readonly env: Readonly<Record<string, string>>;
  readonly workingDirectory: string;
  readonly user: { readonly uid: number; readonly gid: number };
  stdout(data: Buffer): void;
  stderr(data: Buffer): void;
}

/** A program in a container that is none of its guest's. */
export interface ContainerExec {
  /** Its exit code as a shell would tell it; undefined while it runs. */
  exitCode(): Promise<number | undefined>;
  /** Resolves when nobody holds its output open any more. */
  readonly drained: Promise<void>;
  /** Reads no more of its output. The program goes on. */
  release(): void;
}

/** What the runtime says where the program is to blame, or a container in which there is no room for one more process. */
const notStarted =
  /executable file not found|no such file or directory|permission denied|exec format error|resource temporarily unavailable|cannot allocate memory/;
const startWithinMs = 20_000;
const startEveryMs = 5;
const pausedTries = 100;
const pausedPauseMs = 100;

/** Starts a program as a user of its own, confined as the container is. */
export async function execInContainer(docker: Docker, id: string, spec: ExecSpec): Promise<ContainerExec> {
  for (let left = pausedTries; ; left -= 1) {
    try {
      return await start(docker, id, spec);
    } catch (error) {
      if (notStarted.test(saidBy(error))) return unstarted(spec, saidBy(error));
      // It stands still for a moment, for example because it is being sealed.
      const paused = statusOf(error) === 409 && saidBy(error).includes('paused');
      if (!paused || left === 0) throw engineFailed(`starting a program in container ${id}`, error);
    }
    await delay(pausedPauseMs);
  }
}

async function start(docker: Docker, id: string, spec: ExecSpec): Promise<ContainerExec> {
  const container = docker.getContainer(id);
  const { Config } = await container.inspect();
  const ids = hostIdsOf(Config.User);
  const set = Object.entries(spec.env).map(([name, value]) => `${name}=${value}`);
  // A bare name takes a variable away, above all the secret of the guest.
  const taken = [...(Config.Env ?? []), 'HOSTNAME=']
    .map((variable) => variable.slice(0, variable.indexOf('=')))
    .filter((name) => !Object.hasOwn(spec.env, name));
  const exec = await container.exec({
    // A namespace in which the program has its usual ids, as the guest has one, and the guest's filter.
    Cmd: [...(ids === undefined ? [] : [guestCommand[0], 'confined']), ...spec.args],
    Env: [...set, ...taken],
    WorkingDir: spec.workingDirectory,
    User: `${toHostId(ids, spec.user.uid)}:${toHostId(ids, spec.user.gid)}`,
    AttachStdin: false,
    AttachStdout: true,
    AttachStderr: true,
    Tty: false,
    Privileged: false,
  });
  const stream: Duplex = await exec.start({ hijack: true, stdin: false, Tty: false });
  const drained = new Promise<void>((resolve) => {
    for (const event of ['end', 'close', 'error']) stream.once(event, () => resolve());
  });
  stream.on('data', createDemuxer(spec));
  try {
    if (ids !== undefined) await giveIds(exec, ids);
  } catch (error) {
    stream.destroy();
    throw error;
  }
  return {
    drained,
    async exitCode() {
      const { Running, ExitCode } = await exec.inspect();
      return Running ? undefined : (ExitCode ?? undefined);
    },
    release: () => void stream.destroy(),
  };
}

/** Its end is told by its exit code. */
function unlessGone(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT' && error.code !== 'ESRCH') throw error;
}

/** The program waits for its ids once it runs. */
async function giveIds(exec: Docker.Exec, ids: HostIds): Promise<void> {
  const until = performance.now() + startWithinMs;
  for (;;) {
    const { Running, Pid, ExitCode } = await exec.inspect();
    if (Running && Pid > 0) return writeIdMaps(Pid, ids).catch(unlessGone);
    if (!Running && ExitCode !== null) return;
    if (performance.now() > until) throw new Error(`the engine started no process within ${startWithinMs} ms`);
    await delay(startEveryMs);
  }
}

/** What a shell would say of it. */
function unstarted(spec: ExecSpec, said: string): ContainerExec {
  spec.stderr(Buffer.from(`${said}\n`));
  return { exitCode: async () => 127, drained: Promise.resolve(), release() {} };
}
