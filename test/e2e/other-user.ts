import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { inject } from 'vitest';
import { type Client, createClient } from '../../clients/typescript/index.ts';
import type { StackOptions } from '../../scripts/stack.mjs';
import { runDirectory, runId } from '../run.ts';
import { readyWithinMs } from './stack.ts';

export type OtherStackOrder = Pick<StackOptions, 'setup' | 'dataDir' | 'env' | 'readyWithinMs'>;

/** Nobody, in the group to which the engine's socket belongs. */
const uid = 65_534;
const script = fileURLToPath(new URL('./stack-process.ts', import.meta.url));

const groupOfEngine = (): number => statSync(inject('setup').dockerSocket).gid;

/** Why no stack of another user can be started from here; undefined: one can. */
export function obstacleToOtherUser(): string | undefined {
  if (process.getuid?.() !== 0) return 'the tests do not run as root';
  const { dockerSocket, nodePath } = inject('setup');
  if ((statSync(dockerSocket).mode & 0o060) !== 0o060) return `${dockerSocket} is open to no group`;
  const look = spawnSync(nodePath, ['-e', `require('fs').readFileSync(${JSON.stringify(script)})`], {
    ...{ uid, gid: groupOfEngine(), stdio: 'ignore' },
  });
  if (look.status === 0) return undefined;
  const obstacle = 'other users cannot read this repository';
  // Whoever has it in a private home may go without; where changes are judged, a suite that is silently left out is none.
  if (process.env.CI === 'true')
    throw new Error(`${obstacle}; in CI they must: chmod -R o+rX it, and o+x all above it`);
  return obstacle;
}

export interface OtherUsersStack {
  readonly client: Client;
  readonly dataDir: string;
  /** The first of them; another follows should it end. */
  readonly workerPid: number;
  /** Stops in order, as Ctrl-C does. What it kept stays. */
  stop(): Promise<void>;
}

/** A whole stack of an ordinary user who may use the engine. */
export async function startOtherUsersStack(env: NonNullable<StackOptions['env']>): Promise<OtherUsersStack> {
  const gid = groupOfEngine();
  const dataDir = join(runDirectory(), `${process.pid}-other-user`);
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  writeFileSync(join(dataDir, 'installation'), `${runId()}-${process.pid}-o`, { mode: 0o600 });
  const setup = { ...inject('setup'), dataDir, ...copiedPrograms(join(dataDir, 'programs')) };
  copyKept('compiled', join(dataDir, 'compiled'));
  giveCompiled(join(dataDir, 'compiled'));
  copyKept('manifests', join(dataDir, 'worker/manifests'));
  spawnSync('chown', ['-R', `${uid}:${gid}`, dataDir]);
  const order: OtherStackOrder = { setup, dataDir, env, readyWithinMs };
  const child = spawn(setup.nodePath, ['--disable-warning=ExperimentalWarning', script, JSON.stringify(order)], {
    ...{ uid, gid, stdio: ['pipe', 'pipe', 'inherit'] },
    env: { PATH: process.env.PATH ?? '', HOME: dataDir, ASSAY_TEST_RUN: runId() },
  });
  const { endpoint, key, workerPid } = await firstLine(child);
  const client = createClient({ endpoint, apiKey: key });
  let stopped: Promise<void> | undefined;
  const end = async (): Promise<void> => {
    await client.close();
    const ended = once(child, 'exit');
    child.stdin?.end();
    await ended;
  };
  return {
    client,
    dataDir,
    workerPid,
    stop() {
      stopped ??= end();
      return stopped;
    },
  };
}

/** Removes what a stack of another user kept. */
export function removeOtherUsersData(dataDir: string): void {
  rmSync(dataDir, { recursive: true, force: true });
}

/** Those of the set-up lie where their owner alone may look. */
function copiedPrograms(directory: string): { guestPath: string; isolatedPath: string } {
  const { guestPath, isolatedPath } = inject('setup');
  mkdirSync(directory, { recursive: true, mode: 0o755 });
  const copy = (from: string): string => {
    const to = join(directory, basename(from));
    copyFileSync(from, to);
    return to;
  };
  copy(join(dirname(guestPath), 'netdoor'));
  return { guestPath: copy(guestPath), isolatedPath: copy(isolatedPath) };
}

/** Node keeps what it compiled in a directory for each user, with the user's number at its end. */
function giveCompiled(directory: string): void {
  if (!existsSync(directory)) return;
  for (const name of readdirSync(directory).filter((each) => each.endsWith('-0'))) {
    renameSync(join(directory, name), join(directory, `${name.slice(0, -1)}${uid}`));
  }
}

interface Started {
  readonly endpoint: string;
  readonly key: string;
  readonly workerPid: number;
}

/** What takes seconds to make and lies in the data directory of the set-up. */
function copyKept(name: string, to: string): void {
  const from = join(inject('setup').dataDir, name);
  if (existsSync(from)) cpSync(from, to, { recursive: true });
}

async function firstLine(child: ChildProcess): Promise<Started> {
  if (child.stdout === null) throw new Error('it has no output');
  const lines = createInterface({ input: child.stdout });
  for await (const line of lines) return JSON.parse(line) as Started;
  throw new Error('the stack of another user did not start');
}

/** What in a directory belongs to somebody else, who alone could remove it. */
export function notOwnedBelow(dataDir: string): string[] {
  const found = spawnSync('find', [dataDir, '!', '-uid', String(uid)], { encoding: 'utf8' });
  return found.stdout.split('\n').filter((line) => line !== '');
}

/** The end of a log of that stack. */
export function logOf(dataDir: string, name: 'worker' | 'sessions'): string {
  return readFileSync(join(dataDir, 'logs', `${name}.log`), 'utf8');
}
