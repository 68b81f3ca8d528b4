import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, inject } from 'vitest';
import { createEngineApi } from '../../scripts/setup/engine-api.mjs';
import { type EnginePlace, startEngine, startedEngine, stopEngine } from '../../scripts/setup/engine-process.mjs';
import { findProcesses, identify } from '../../scripts/setup/process-table.mjs';
import { eventually } from '../e2e/eventually.ts';
import { mountsBelow } from '../leftovers.ts';
import { runDirectory } from '../run.ts';

/** An engine of a test's own with the base image, which set-up starts as it starts a machine's. */
export interface OwnEngine {
  readonly socket: string;
  readonly api: ReturnType<typeof createEngineApi>;
  /** Ends the engine, and starts it again: its containers live on. */
  restart(): Promise<void>;
  /** Kills the engine and its containerd, and starts both without what they knew of the processes of a container. */
  crashAndForget(containerId: string): Promise<void>;
  stop(): Promise<void>;
}

export async function startOwnEngine(): Promise<OwnEngine> {
  const directory = join(runDirectory(), 'engine');
  const bridge = `asy${process.pid}`;
  const place: EnginePlace = {
    socket: join(directory, 'docker.sock'),
    record: join(directory, 'engine.json'),
    pidFile: join(directory, 'docker.pid'),
    containerdState: join(directory, 'exec', 'containerd'),
    settings: join(directory, 'daemon.json'),
    attempts: [
      [
        ...['--data-root', join(directory, 'data'), '--exec-root', join(directory, 'exec')],
        ...['--pidfile', join(directory, 'docker.pid'), '--config-file', join(directory, 'daemon.json')],
        ...['--bridge', bridge, '--iptables=false', '--ip6tables=false'],
        // Runs beside this one look for what is left below the parent that the machine's engine has.
        ...['--cgroup-parent', `/${bridge}`],
      ],
    ],
  };
  const api = createEngineApi(place.socket);
  mkdirSync(directory, { recursive: true });
  writeFileSync(place.settings, '{}');
  execFileSync('ip', ['link', 'add', bridge, 'type', 'bridge']);
  execFileSync('ip', ['address', 'add', '192.0.2.1/24', 'dev', bridge]);
  await startEngine(api, directory, place);
  await copyImage(inject('setup').baseImage, place.socket);
  return {
    socket: place.socket,
    api,
    async restart() {
      const before = startedEngine(place);
      process.kill(before?.pid ?? 0, 'SIGTERM');
      await eventually(() => expect(startedEngine(place)).toBeUndefined());
      await startEngine(api, directory, place);
      expect(startedEngine(place)?.pid).not.toBe(before?.pid);
    },
    async crashAndForget(containerId) {
      const isContainerd = (name: string, command: readonly string[]) =>
        name === 'containerd' && command.some((part) => part.startsWith(place.containerdState));
      const killed = [identify(startedEngine(place)?.pid ?? 0), ...findProcesses(isContainerd)];
      expect(killed.map((found) => found?.name)).toEqual(['dockerd', 'containerd']);
      for (const found of killed) process.kill(found?.pid ?? 0, 'SIGKILL');
      // An engine takes even a zombie for a containerd that runs.
      await eventually(() => expect(killed.some((found) => existsSync(`/proc/${found?.pid}`))).toBe(false));
      const task = join(place.containerdState, 'daemon', 'io.containerd.runtime.v2.task', 'moby', containerId);
      expect(existsSync(task)).toBe(true);
      rmSync(task, { recursive: true });
      await startEngine(api, directory, place);
    },
    async stop() {
      const { mounted } = await stopEngine(place);
      const left = mountsBelow(directory);
      for (const point of left) execFileSync('umount', [point]);
      execFileSync('ip', ['link', 'delete', bridge]);
      // An engine that ended in the middle of a create has left the cgroup of a container that it does not know.
      execFileSync('find', [
        '/sys/fs/cgroup',
        '-depth',
        '-type',
        'd',
        '-path',
        `*/${bridge}*`,
        '-exec',
        'rmdir',
        '{}',
        ';',
      ]);
      rmSync(directory, { recursive: true, force: true });
      expect({ mounted, left }).toEqual({ mounted: [], left: [] });
    },
  };
}

/** By its files, not as an archive of layers: those of an image that was imported need not be reproducible. */
async function copyImage(image: string, socket: string): Promise<void> {
  const from = ['--host', `unix://${inject('setup').dockerSocket}`];
  const docker = (...args: string[]) => execFileSync('docker', [...from, ...args], { encoding: 'utf8' }).trim();
  const { Env, User, WorkingDir } = JSON.parse(docker('inspect', '--format', '{{json .Config}}', image));
  const changes = [...Env.map((line: string) => `ENV ${line}`), `WORKDIR ${WorkingDir}`];
  if (User) changes.push(`USER ${User}`);
  const container = docker('create', image, 'true');
  try {
    const exported = spawn('docker', [...from, 'export', container], { stdio: ['ignore', 'pipe', 'inherit'] });
    const options = changes.flatMap((change) => ['--change', change]);
    const target = ['--host', `unix://${socket}`, 'import', ...options, '-', image];
    const imported = spawn('docker', target, { stdio: [exported.stdout, 'ignore', 'inherit'] });
    const [code] = await once(imported, 'exit');
    expect(code).toBe(0);
  } finally {
    docker('rm', container);
  }
}
