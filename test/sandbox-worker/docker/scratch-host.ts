import { execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmodSync, chownSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import Docker from 'dockerode';
import { inject } from 'vitest';
import { createEngine } from '../../../services/sandbox-worker/docker/docker-engine.ts';
import type { ContainerSpec, Engine, EngineDeps } from '../../../services/sandbox-worker/docker/engine.ts';
import { backingFile } from '../../../services/sandbox-worker/docker/loop-disk.ts';
import { readMounts } from '../../../services/sandbox-worker/docker/mount-table.ts';
import { createLog } from '../../../services/shared/log.ts';
import { runDirectory, runId } from '../../run.ts';

export const socketPath = inject('setup').dockerSocket;
export const log = createLog('test', 'silent');
export const mebibyte = 1024 * 1024;

/** A place on the real host and engine for one test file, which knows what it left behind. */
export interface ScratchHost {
  readonly directory: string;
  readonly installation: string;
  /** By which the run finds a container of its own. */
  readonly labels: Readonly<Record<string, string>>;
  readonly docker: Docker;
  engine(options?: Partial<EngineDeps>): Promise<Engine>;
  /** A slot with the FIFOs `report`, `go` and `up`, for a script in the sandbox to write and read. */
  spec(imageId: string, change?: Partial<ContainerSpec>): ContainerSpec;
  /** Runs a shell script as PID 1 and returns what it reports; the container then stays. */
  report(script: string, change?: Partial<ContainerSpec>): Promise<Reported>;
  close(): Promise<Leftovers>;
}

export interface Reported {
  readonly id: string;
  readonly pid: number;
  readonly said: string;
  readonly slot: string;
  readonly engine: Engine;
}

export interface Leftovers {
  readonly containers: string[];
  readonly mounts: string[];
  readonly loopFiles: string[];
  readonly diskFiles: string[];
}

export function baseImage(): string {
  return inject('setup').baseImage;
}

const reportCommand = ['/bin/sh', '-c', '{ . /run/assay/script\n} >/run/assay/report 2>&1; exec sleep infinity'];

export function createScratchHost(): ScratchHost {
  const directory = mkdtempSync(join(runDirectory(), 'engine-test-'));
  // Sandboxed processes reach the slot through a bind mount, but the tests' own tools by path.
  chmodSync(directory, 0o755);
  const installation = `${runId()}-${randomBytes(6).toString('hex')}`;
  const labels = { 'dev.assay.installation': installation };
  const docker = new Docker({ socketPath, host: undefined });
  const disks = join(directory, 'disks');
  /** One for all reports, since to find out what the host can do takes a while. */
  let reporting: Promise<Engine> | undefined;

  const engine: ScratchHost['engine'] = async (options = {}) => {
    const made = createEngine({ socketPath, log, templateDirectory: join(directory, 'templates'), ...options });
    await made.ready();
    return made;
  };
  const spec: ScratchHost['spec'] = (imageId, change = {}) => {
    const name = `assay-${installation}-${randomBytes(4).toString('hex')}`;
    const slotDirectory = join(directory, name);
    mkdirSync(slotDirectory);
    const pipes = ['report', 'go', 'up'].map((pipe) => join(slotDirectory, pipe));
    execFileSync('mkfifo', pipes);
    for (const pipe of pipes) chownSync(pipe, 1000, 1000);
    return {
      name,
      imageId,
      labels: { ...labels, 'dev.assay.session': name },
      secretHex: '00'.repeat(32),
      slotDirectory,
      diskDirectory: disks,
      limits: { cpus: 1, memoryBytes: 256 * mebibyte, diskBytes: 64 * mebibyte, pids: 64 },
      ...change,
    };
  };

  return {
    directory,
    installation,
    labels,
    docker,
    engine,
    spec,
    async report(script, change) {
      reporting ??= engine({ command: reportCommand });
      const made = await reporting;
      const image = await made.image(change?.imageId ?? baseImage());
      const wanted = spec(image.id, { ...change, imageId: image.id });
      writeFileSync(join(wanted.slotDirectory, 'script'), script);
      // Not by a stream of our own: opening a FIFO takes one of this process's few threads until somebody writes.
      const reader = spawn('cat', [join(wanted.slotDirectory, 'report')], { stdio: ['ignore', 'pipe', 'ignore'] });
      try {
        const said = text(reader.stdout);
        const { id, pid } = await made.run(wanted);
        return { id, pid, said: await said, slot: wanted.slotDirectory, engine: made };
      } finally {
        reader.kill('SIGKILL');
      }
    },
    async close() {
      const containers = await docker.listContainers({
        all: true,
        filters: { label: [`dev.assay.installation=${installation}`] },
      });
      const left: Leftovers = {
        containers: containers.map(({ Id, State }) => `${Id} ${State}`),
        mounts: readMounts().flatMap(({ mountPoint }) => (mountPoint.startsWith(directory) ? [mountPoint] : [])),
        loopFiles: boundLoopFiles().filter((file) => file.startsWith(directory)),
        diskFiles: existsSync(disks) ? readdirSync(disks) : [],
      };
      const remover = await engine();
      for (const { Id } of containers) await remover.remove(Id);
      rmSync(directory, { recursive: true, force: true });
      return left;
    },
  };
}

export const nothingLeft: Leftovers = { containers: [], mounts: [], loopFiles: [], diskFiles: [] };

/** The files behind all loop devices; a deleted one keeps its path. */
export function boundLoopFiles(): string[] {
  return readdirSync('/sys/block')
    .filter((name) => name.startsWith('loop'))
    .flatMap((name) => backingFile(`/dev/${name}`) ?? []);
}
