import type { ContainerSpec } from './engine.ts';

/** A way to cap what a container can write to its root file system. */
export interface DiskLimit {
  readonly kind: 'engine' | 'loop' | 'none';
  /** Options for the engine's create call. */
  storageOpt(bytes: number): Readonly<Record<string, string>> | undefined;
  /** What can be done while the engine is still creating the container. */
  prepare(spec: ContainerSpec): Promise<PreparedDisk>;
  /** Looks at what the limit of a container holds on the host, before the container is removed. */
  held(layerDirectory: string): HeldDisk;
}

/** What a container's disk limit holds on the host. */
export interface HeldDisk {
  /** Resolves once it is free, rejects when it is not by then; to be called when the container is gone. */
  free(withinMs: number): Promise<void>;
}

/** A disk made for one container. */
export interface PreparedDisk {
  /** Puts the limit over the layer directory of a container that is created and not started. */
  attach(layerDirectory: string): Promise<void>;
  /** Throws unless the limit holds for the running container. */
  verify(pid: number): void;
  /** Frees what attach did not use; harmless afterwards. */
  discard(): void;
}

const nothing: PreparedDisk = { attach: async () => {}, verify: () => {}, discard: () => {} };
const nothingHeld: HeldDisk = { free: async () => {} };

/** The engine limits by itself (`storage-opt size`). */
export function createEngineDiskLimit(): DiskLimit {
  return {
    kind: 'engine',
    storageOpt: (bytes) => ({ size: String(bytes) }),
    prepare: async () => nothing,
    held: () => nothingHeld,
  };
}

/** No limit can be had here. */
export function createNoDiskLimit(): DiskLimit {
  return { kind: 'none', storageOpt: () => undefined, prepare: async () => nothing, held: () => nothingHeld };
}
