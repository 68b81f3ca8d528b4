import { existsSync } from 'node:fs';
import type { ContainerCreateOptions, MountSettings } from 'dockerode';
import { sessionUser } from './container-users.ts';
import type { ContainerSpec } from './engine.ts';
import type { HostIds } from './host-ids.ts';
import { maskedPaths } from './masked-paths.ts';
import { nameFileMounts, sandboxName } from './name-files.ts';

/** IPv6 for the loopback alone, whatever interface is added later. A kernel without IPv6 knows no such setting. */
const ipv6Directory = '/proc/sys/net/ipv6';
const loopbackIpv6 = { 'net.ipv6.conf.default.disable_ipv6': '1' };

/** Where the slot directory appears inside the container. */
const slotMount = '/run/assay';

export const guestCommand = [`${slotMount}/guest`, `${slotMount}/guest.sock`] as const;

/** Where tests and reports are while something is graded. */
export const graderDirectory = '/grader';

/** Where the guest keeps what it hands to shells: their texts and pipes. */
const shellMount = '/run/assay-shell';
const shellMountOptions = 'mode=0700,size=8m,nr_inodes=4096,noexec,nosuid,nodev';

/** What a guest that is root may do: start programs as other users, and end them. */
const rootGuestCapabilities = ['SETUID', 'SETGID', 'KILL'];

const sharedMemoryBytes = 64 * 1024 * 1024;
const openFiles = 65_536;

/** What the engine can do for a container beyond the ordinary. */
export interface EngineRights {
  readonly storageOpt: Readonly<Record<string, string>> | undefined;
  /** Open files above the engine's own limit. */
  readonly raiseLimits: boolean;
  /** What the container's users are on the host; undefined: what they are inside. */
  readonly ids?: HostIds | undefined;
}

/**
 * The hardened container of a session. Whatever an image could bring along that would run, mount, probe or restart
 * something is overridden here.
 */
export function containerOptions(
  spec: ContainerSpec,
  command: readonly string[],
  { storageOpt, raiseLimits, ids }: EngineRights,
): ContainerCreateOptions {
  const { limits, rootGuest } = spec;
  const agent = ids?.agent ?? sessionUser.uid;
  return {
    name: spec.name,
    Image: spec.imageId,
    Labels: { ...spec.labels },
    Env: [
      `ASSAY_GUEST_SECRET=${spec.secretHex}`,
      ...(ids ? [`ASSAY_GUEST_USERS=${rootGuest ? 'root' : 'session'}`] : []),
    ],
    Entrypoint: command.slice(0, 1),
    Cmd: command.slice(1),
    User: rootGuest && !ids ? '0:0' : `${agent}:${agent}`,
    Hostname: sandboxName,
    StopSignal: 'SIGKILL',
    Healthcheck: { Test: ['NONE'] },
    // The engine does nothing about a network: there is a loopback, and what the worker adds from outside.
    NetworkDisabled: true,
    HostConfig: {
      NetworkMode: 'none',
      ...(existsSync(ipv6Directory) ? { Sysctls: loopbackIpv6 } : {}),
      IpcMode: 'private',
      CapDrop: ['ALL'],
      ...capabilities(spec, ids),
      SecurityOpt: ['no-new-privileges'],
      MaskedPaths: [...maskedPaths],
      ReadonlyRootfs: false,
      Init: false,
      Mounts: [
        readOnlyMount(spec.slotDirectory, slotMount),
        ...nameFileMounts(spec.slotDirectory).map(({ source, target }) => readOnlyMount(source, target)),
      ],
      Tmpfs: { [shellMount]: `uid=${agent},gid=${agent},${shellMountOptions}` },
      NanoCpus: Math.round(limits.cpus * 1e9),
      Memory: limits.memoryBytes,
      // Equal to Memory: no swap, so that the memory limit is the whole truth.
      MemorySwap: limits.memoryBytes,
      PidsLimit: limits.pids,
      // Programs start higher, and may lower their own score to this: a negative one would protect them like a service.
      OomScoreAdj: 0,
      ShmSize: sharedMemoryBytes,
      Ulimits: [
        { Name: 'core', Soft: 0, Hard: 0 },
        ...(raiseLimits ? [{ Name: 'nofile', Soft: openFiles, Hard: openFiles }] : []),
      ],
      LogConfig: { Type: 'none', Config: {} },
      RestartPolicy: { Name: 'no' },
      AutoRemove: false,
      ...(storageOpt ? { StorageOpt: { ...storageOpt } } : {}),
    },
  };
}

/**
 * A guest with ids of its own is root in its own user namespace alone. It has no capability outside of it; that the container could have
 * SYS_ADMIN makes the engine's filter let it make that namespace, which the guest's own filter then refuses to all others.
 */
function capabilities({ rootGuest }: ContainerSpec, ids: HostIds | undefined): { CapAdd?: string[] } {
  if (ids !== undefined) return { CapAdd: ['SYS_ADMIN'] };
  return rootGuest ? { CapAdd: [...rootGuestCapabilities] } : {};
}

function readOnlyMount(source: string, target: string): MountSettings {
  const BindOptions = { Propagation: 'rprivate' } as const;
  return { Type: 'bind', Source: source, Target: target, ReadOnly: true, BindOptions };
}
