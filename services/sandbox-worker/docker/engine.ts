import type { Logger } from '../../shared/log.ts';
import type { ArchivedContainer } from './archived-files.ts';
import type { ContainerExec, ExecSpec } from './container-exec.ts';
import type { ContainerLayer } from './container-layer.ts';
import type { LayerCopiesDeps } from './layer-copies.ts';

/** An image that a session can run in: it has the session's user, a HOME and a workspace. */
export interface SandboxImage {
  readonly id: string;
  readonly env: Readonly<Record<string, string>>;
  readonly workingDirectory: string;
  readonly home: string;
  /** What uid 1000, which sessions run as, is called. */
  readonly users: readonly string[];
}

/** What a session's container is made of. */
export interface ContainerSpec {
  /** `assay-<session id>`, or another name behind `assay-` for one that has no session yet. */
  readonly name: string;
  readonly imageId: string;
  /** Who waits for it: projects take turns. */
  readonly project?: string;
  /** dev.assay.installation, dev.assay.session and dev.assay.project are set by the caller. */
  readonly labels: Readonly<Record<string, string>>;
  /** ASSAY_GUEST_SECRET in the environment of PID 1. */
  readonly secretHex: string;
  /** Host directory mounted read-only at /run/assay; holds `guest` (a static binary) and guest.sock, and gets hosts, hostname and resolv.conf. */
  readonly slotDirectory: string;
  /** Host directory where the image file of the disk limit is kept. */
  readonly diskDirectory: string;
  readonly limits: ContainerLimits;
  /**
   * The guest is root, and may become another user and kill, and nothing else: it starts each program as the user that it
   * is told. Otherwise it is the session's user, and so is all that it starts.
   */
  readonly rootGuest?: boolean;
  /**
   * It reads copies of the image's files, so that what it reads is not seen in the page cache of containers without this. Where the
   * engine cannot do that (no capability `host_ids`) it reads the image's own.
   */
  readonly copiedImage?: boolean;
  /** Nobody waits for it: it is made while nobody else creates. */
  readonly background?: boolean;
  /** A container of the same image whose files this one begins with. */
  readonly files?: ContainerFiles | undefined;
  /** Changes the files of the container, which is created and not started, through its empty overlay upper directory. */
  readonly fill?: (upper: string) => Promise<void>;
}

/** The files of a running container, to be copied. */
export interface ContainerFiles {
  readonly containerId: string;
  /** Aborted when nobody needs the copy any more. */
  readonly signal: AbortSignal;
  /** Runs the copy while nothing in the container moves. */
  whileStill(copy: () => Promise<void>): Promise<void>;
}

export interface ContainerLimits {
  readonly cpus: number;
  readonly memoryBytes: number;
  readonly diskBytes: number;
  readonly pids: number;
}

/** A container that never ran. */
export interface CreatedContainer {
  readonly id: string;
  /** Its overlay upper directory, not mounted yet: its files can be changed there. Throws where this worker may not. */
  readonly upper: string;
  /** On failure nothing is left behind. */
  start(): Promise<RunningContainer>;
}

export interface RunningContainer {
  readonly id: string;
  /** PID 1 of the container as the host sees it. */
  readonly pid: number;
}

export interface ContainerSummary {
  readonly id: string;
  readonly labels: Readonly<Record<string, string>>;
  /** The engine's word: created, running, paused, exited, dead... */
  readonly state: string;
  readonly createdMs: number;
}

/** The container engine, as the worker needs it. */
export interface Engine {
  /** What the engine can do beyond the ordinary, such as `disk_limit`; decided once, by ready(). */
  readonly capabilities: readonly string[];
  /** Whether the files of containers are to be had as overlay directories of this host; decided by ready(). It takes root. */
  readonly hasLayers: boolean;
  /** Where the engine keeps images and layers on this host; decided by ready(). Undefined: it does not say. */
  readonly rootDirectory: string | undefined;
  /** Cores that the engine can give to one container; it makes none that asks for more. Decided by ready(). Undefined: it does not say. */
  readonly cpus: number | undefined;
  /** Whether the disks of sandboxes are files of their slots; else they are in the root directory. Decided by ready(). */
  readonly disksInSlots: boolean;
  /** Pings and probes; throws ENGINE_FAILED with what to type. */
  ready(): Promise<void>;
  /** Whether the engine answers. Rejects within seconds if not. */
  ping(): Promise<void>;
  /** IMAGE_NOT_FOUND if absent. An image without the session's user gets a thin derived image, once. */
  image(reference: string): Promise<SandboxImage>;
  /** The ids of all images that the engine has, named or not. */
  imageIds(): Promise<ReadonlySet<string>>;
  /** Makes the copies that containers with `copiedImage` read, unless they are there or cannot be had. It may take seconds. */
  copyImage(imageId: string): Promise<void>;
  /** Removes copies of images that the engine has no more. */
  sweepCopies(): Promise<void>;
  /** Creates, limits and starts; on any failure nothing is left behind. */
  run(spec: ContainerSpec): Promise<RunningContainer>;
  /** The first half of run(): `files` and `fill` are not looked at. On any failure nothing is left behind. */
  create(spec: ContainerSpec): Promise<CreatedContainer>;
  /** Ends every process of the container at once, and resolves when none is left. The container stays. */
  kill(container: RunningContainer): Promise<void>;
  rename(id: string, name: string): Promise<void>;
  /** undefined: not running, or gone. */
  pid(id: string): Promise<number | undefined>;
  /** Whether a container that runs was started to the end: before that nothing runs in it, and its guest will give up. */
  isStarted(id: string): Promise<boolean>;
  /** Starts a program as a user of its own, with nothing but these variables, confined as the container is. */
  exec(id: string, spec: ExecSpec): Promise<ContainerExec>;
  /** Where the files of a running container are on this host. */
  layer(id: string): Promise<ContainerLayer>;
  /** How they are reached without such directories. */
  archived(id: string): ArchivedContainer;
  /** The id of the image that a container was made of. */
  imageOf(id: string): Promise<string>;
  /** Here and below `project` is who waits for it: projects take turns. */
  pause(id: string, project?: string): Promise<void>;
  resume(id: string, project?: string): Promise<void>;
  /** From any state, any number of times; resolves once container, mount, loop device and image file are gone. */
  remove(id: string, project?: string): Promise<void>;
  /** Containers of the installation, in any state. */
  list(installation: string): Promise<ContainerSummary[]>;
  /**
   * Tells of containers of the installation that died. Deaths before the connection and while it is broken are not told:
   * at each onConnect the caller compares with list().
   */
  watch(installation: string, died: (id: string) => void, onConnect?: () => void): { close(): void };
}

/** What createEngine (docker-engine.ts) needs. */
export interface EngineDeps {
  readonly socketPath: string;
  readonly log: Logger;
  /** Whose containers it makes to read images; those that a worker of the same installation left are removed by ready(). */
  readonly installation?: string;
  /** Calls in flight at once for one project; two is the measured best for creations. */
  readonly concurrency?: number;
  /** Whether several projects work now: then each has one call in flight. */
  readonly contended?: () => boolean;
  /** Where prepared empty filesystems are kept, one for each disk limit. */
  readonly templateDirectory: string;
  /** The operator accepts sessions without a disk limit where none can be had. */
  readonly allowUnlimitedDisk?: boolean;
  /** The program that is PID 1; the guest unless told. */
  readonly command?: readonly string[];
  /** The program that gives containers host ids of their own; without it all have the same. */
  readonly idmountPath?: string | undefined;
  /** Where the copies for containers with `copiedImage` are kept; without it they have the image's own files. */
  readonly layerCopies?: LayerCopiesDeps | undefined;
}
