import { join } from 'node:path';
import type { Logger } from '../../shared/log.ts';
import type { WorkerConfig } from '../config.ts';
import type { ContainerLimits, Engine } from '../docker/engine.ts';
import { completeLimits, type Sandbox } from '../sandbox/sandbox.ts';
import type { Sandboxes } from '../sandbox/sandboxes.ts';
import { createWriterHold } from '../sandbox/writer-hold.ts';
import { type Admission, createAdmission, type Promised } from './admission.ts';
import { createDiskPressure, type DiskPressure } from './disk-pressure.ts';
import { createDiskReserve } from './disk-reserve.ts';
import { type DiskRoom, type HostRoom, readDiskRoom, readHostRoom } from './host-room.ts';
import { createProcessorShares } from './processor-shares.ts';

/** A program can write a gibibyte in a second, and the floor is one. A look costs some microseconds. */
const lookMs = 200;

export interface WorkerHostDeps {
  readonly engine: Pick<Engine, 'rootDirectory' | 'disksInSlots' | 'cpus'>;
  readonly dataDirectory: string;
  readonly defaultLimits: ContainerLimits;
  /** Every sandbox of the worker, those of the warm pool too. */
  readonly all: () => Iterable<Pick<Sandbox, 'file'>>;
  /** What was promised to sandboxes that are not among them yet. */
  readonly arriving: () => Iterable<Promised>;
  /** The worker has begun to refuse new work, or to take it again. */
  readonly changed: () => void;
  readonly log: Logger;
}

/** What the worker does so as not to take more than its host has. */
export interface WorkerHost {
  readonly admission: Admission;
  readonly pressure: DiskPressure;
  /** What the host is short of for a session with the default limits, beside pressure: a sentence for each. */
  shortages(): string[];
  readonly room: () => HostRoom;
  /** Looks at the disks from now on, pauses sessions that write where they are nearly full, and shares the processors. */
  watch(sandboxes: Sandboxes): { stop(): void };
}

export function createWorkerHost(config: WorkerConfig, deps: WorkerHostDeps): WorkerHost {
  const { engine, dataDirectory, defaultLimits, log } = deps;
  const slots = join(dataDirectory, 's');
  const rooms = (): DiskRoom[] =>
    [dataDirectory, slots, engine.rootDirectory]
      .map((path) => (path === undefined ? undefined : readDiskRoom(path)))
      .filter((room) => room !== undefined);
  let mostFreeBytes = 0;
  /** Where the disks of sandboxes lie. */
  const disk = () => {
    const room = readDiskRoom(engine.disksInSlots ? slots : (engine.rootDirectory ?? slots));
    mostFreeBytes = Math.max(mostFreeBytes, room?.freeBytes ?? 0);
    return room && { freeBytes: room.freeBytes, mostFreeBytes };
  };
  const pressure = createDiskPressure({
    rooms,
    floorBytes: config.ASSAY_DISK_FLOOR_BYTES,
    floorInodes: config.ASSAY_DISK_FLOOR_INODES,
    changed: deps.changed,
    log,
  });
  const admission = createAdmission({
    *promised() {
      yield* deps.arriving();
      for (const { file } of deps.all()) yield { ...completeLimits(file.limits, defaultLimits), project: file.project };
    },
    disk,
    host: readHostRoom,
    cpus: () => engine.cpus,
    overcommit: {
      memory: config.ASSAY_OVERCOMMIT_MEMORY,
      disk: config.ASSAY_OVERCOMMIT_DISK,
      pids: config.ASSAY_OVERCOMMIT_PIDS,
    },
    sharePercent: config.ASSAY_PROJECT_SHARE,
    memoryFloorBytes: config.ASSAY_MEMORY_FLOOR_BYTES,
    pressure: () => pressure.reason,
  });
  const reserve = createDiskReserve(dataDirectory, config.ASSAY_DISK_RESERVE_BYTES, log);
  pressure.look();
  return {
    admission,
    pressure,
    shortages: () => admission.shortages(defaultLimits),
    room: readHostRoom,
    watch(sandboxes) {
      const hold = createWriterHold({ sandboxes, pressure, log });
      const processors = createProcessorShares(() => sandboxes.live);
      const timer = setInterval(() => {
        pressure.look();
        disk();
        reserve.look(pressure.rooms[0], pressure.reason === undefined && !pressure.near);
        hold.look(Date.now());
        processors.look(performance.now());
      }, lookMs).unref();
      return { stop: () => clearInterval(timer) };
    },
  };
}
