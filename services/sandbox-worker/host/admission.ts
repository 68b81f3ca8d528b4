import { byteSizes } from '../../shared/byte-size.ts';
import { DomainError } from '../../shared/domain-error.ts';
import type { ContainerLimits } from '../docker/engine.ts';
import type { DiskRoom, HostRoom } from './host-room.ts';

/** With a smaller share of them free, commands may soon fail to start. */
const leastFreePids = 1 / 20;

/** The limits of a sandbox, and whose it is: empty for one of the warm pool. */
export interface Promised extends ContainerLimits {
  readonly project: string;
}

export interface AdmissionDeps {
  /** Every sandbox that this worker has or makes, those of the warm pool too. */
  readonly promised: () => Iterable<Promised>;
  /** The file system that the disks of sandboxes are on, and the most that was free there. Undefined: it cannot be seen. */
  readonly disk: () => (Pick<DiskRoom, 'freeBytes'> & { readonly mostFreeBytes: number }) | undefined;
  readonly host: () => HostRoom;
  /** Cores that the engine can give to one sandbox. Undefined: the engine has not told yet. */
  readonly cpus: () => number | undefined;
  /** How many times what the host has may be promised to sandboxes together. */
  readonly overcommit: { readonly memory: number; readonly disk: number; readonly pids: number };
  /** Of what may be promised, the percentage that one project alone may have. */
  readonly sharePercent: number;
  /** No sandbox is made while less memory is available. */
  readonly memoryFloorBytes: number;
  /** Why no new work is taken. Undefined: it is. */
  readonly pressure: () => string | undefined;
}

/** Decides by what the host has left whether it takes more. */
export interface Admission {
  /** Throws HOST_FULL unless the host can hold one more sandbox with these limits, CAPACITY_SHARE where the rest is for other projects. */
  checkSandbox(asked: Promised): void;
  /** Whether the project may have one more sandbox of those that are promised already: the warm ones. */
  hasShareFor(project: string): boolean;
  /** Whether there is room for work that writes. */
  readonly takesWork: boolean;
  /** Throws HOST_FULL unless there is room for work that writes: a build, a seal, a grading. */
  checkWork(): void;
  /** What one more sandbox with the default limits would be refused for, beside pressure, and what will soon be short. A sentence for each. */
  shortages(defaults: ContainerLimits): string[];
}

/** Of all processes of the host, the part that may be promised: the services, the engine and a login need some too. */
const promisedPidsPart = 7 / 8;
/** The part that one sandbox may have: a fork bomb that reaches its limit must leave the host able to start processes. */
const sandboxPidsPart = 1 / 4;

interface Resource {
  readonly name: 'memory' | 'processes' | 'disk';
  readonly setting: string;
  readonly asked: number;
  /** What the host has. */
  readonly total: number;
  /** What the host has for sandboxes; the promises of all of them are measured by it. */
  readonly had: number;
  /** The most that one sandbox can ever get. */
  readonly most: number;
  readonly factor: number;
  readonly promised: number;
  /** What of it is the project's. */
  readonly held: number;
}

export function createAdmission(deps: AdmissionDeps): Admission {
  const checkWork = (): void => {
    const reason = deps.pressure();
    if (reason !== undefined) throw hostFull(reason);
  };
  return {
    checkWork,
    get takesWork() {
      return deps.pressure() === undefined;
    },
    checkSandbox(asked) {
      checkWork();
      const host = deps.host();
      const short = memoryShortage(host, deps.memoryFloorBytes);
      if (short !== undefined) throw hostFull(short);
      checkCpus(asked.cpus, deps.cpus());
      for (const resource of resourcesOf(deps, asked, host)) {
        const refusal = refusalOf(resource);
        if (refusal !== undefined) throw hostFull(refusal);
        if (asked.project !== '' && !isWithinShare(resource, deps.sharePercent))
          throw overShare(resource, deps.sharePercent);
      }
    },
    shortages(defaults) {
      const host = deps.host();
      const refusals = resourcesOf(deps, { ...defaults, project: '' }, host).map(refusalOf);
      return [
        ...[memoryShortage(host, deps.memoryFloorBytes), pidShortage(host)].filter((found) => found !== undefined),
        ...refusals.flatMap((found) =>
          found === undefined ? [] : `a session with the default limits is refused: ${found}`,
        ),
      ];
    },
    hasShareFor(project) {
      const asked = { cpus: 0, memoryBytes: 0, diskBytes: 0, pids: 0, project };
      return resourcesOf(deps, asked, deps.host()).every((resource) => isWithinShare(resource, deps.sharePercent));
    },
  };
}

function resourcesOf(deps: AdmissionDeps, asked: Promised, host: HostRoom): readonly Resource[] {
  const sum = { memoryBytes: 0, diskBytes: 0, pids: 0 };
  const held = { memoryBytes: 0, diskBytes: 0, pids: 0 };
  for (const promised of deps.promised()) {
    add(sum, promised);
    if (promised.project === asked.project) add(held, promised);
  }
  const disk = deps.disk();
  return [
    {
      ...{ name: 'memory' as const, setting: 'ASSAY_OVERCOMMIT_MEMORY', asked: asked.memoryBytes },
      ...{ total: host.totalMemoryBytes, had: host.totalMemoryBytes, most: host.totalMemoryBytes },
      ...{ factor: deps.overcommit.memory, promised: sum.memoryBytes, held: held.memoryBytes },
    },
    {
      ...{ name: 'processes' as const, setting: 'ASSAY_OVERCOMMIT_PIDS', asked: asked.pids },
      ...{ total: host.totalPids, had: Math.ceil(host.totalPids * promisedPidsPart) },
      most: Math.floor(host.totalPids * sandboxPidsPart),
      ...{ factor: deps.overcommit.pids, promised: sum.pids, held: held.pids },
    },
    ...(disk === undefined
      ? []
      : [
          {
            ...{ name: 'disk' as const, setting: 'ASSAY_OVERCOMMIT_DISK', asked: asked.diskBytes },
            ...{ total: disk.mostFreeBytes, had: disk.freeBytes, most: disk.mostFreeBytes },
            ...{ factor: deps.overcommit.disk, promised: sum.diskBytes, held: held.diskBytes },
          },
        ]),
  ];
}

type Amounts = Pick<ContainerLimits, 'memoryBytes' | 'diskBytes' | 'pids'>;

function add(to: { -readonly [Name in keyof Amounts]: number }, more: Amounts): void {
  to.memoryBytes += more.memoryBytes;
  to.diskBytes += more.diskBytes;
  to.pids += more.pids;
}

/** The rule by which projects share the places of a worker (`sandbox/places.ts`), for what its sandboxes may use. */
function isWithinShare({ asked, had, factor, promised, held }: Resource, sharePercent: number): boolean {
  const left = had * factor - promised;
  if (held === 0) return true;
  if (asked === 0) return held * (100 - sharePercent) < sharePercent * left;
  // With what is asked for: a few large sandboxes must not pass the share either.
  return (held + asked) * (100 - sharePercent) <= sharePercent * (left - asked);
}

/** Amounts of a resource that one sentence compares, such as `2 GiB` or `512`. */
function amounts({ name }: Pick<Resource, 'name'>, ...numbers: number[]): string[] {
  return name === 'processes' ? numbers.map(String) : byteSizes(...numbers);
}

/** What stands behind the first amount of a sentence. */
function noun({ name }: Resource): string {
  return name === 'processes' ? name : `of ${name}`;
}

function overShare(resource: Resource, sharePercent: number): DomainError {
  const { had, factor, promised } = resource;
  const [held, asked, left] = amounts(resource, resource.held, resource.asked, had * factor - promised);
  const found = `the project's sandboxes on this worker may use ${held} ${noun(resource)} together, and this one ${asked}`;
  const allowed = `the worker has ${left} left to promise, for other projects too`;
  const share = `ASSAY_PROJECT_SHARE is ${sharePercent} percent`;
  const message = `${found}; ${allowed} (${share}); close a session, ask for less, or try again later`;
  return new DomainError('CAPACITY_SHARE', message);
}

/** Cores are not promised but shared by time, so that only what the engine would refuse is too much. */
function checkCpus(asked: number, had: number | undefined): void {
  if (had === undefined || asked <= had) return;
  throw hostFull(`the session asks for ${asked} cores, and the worker's host has ${had}; ask for less`);
}

/** Why the host does not give the resource to one more sandbox. Undefined: it does. */
function refusalOf(resource: Resource): string | undefined {
  const { setting, asked, total, had, most, factor, promised } = resource;
  if (asked > most) {
    const [wanted, has, may] = amounts(resource, asked, total, most);
    const found = `the session asks for ${wanted} ${noun(resource)}, and the worker's host has ${has}`;
    return most < total ? `${found}, of which one session may have ${may}; ask for less` : `${found}; ask for less`;
  }
  if (promised + asked <= had * factor) return undefined;
  const [all, one, has] = amounts(resource, promised, asked, had);
  const found = `its sandboxes may use ${all} ${noun(resource)} together, and this one ${one}`;
  const allowed = `the worker promises ${factor} times (${setting}) the ${has} that its host has for sandboxes`;
  return `${found}; ${allowed}; close a session, ask for less, or try again later`;
}

function memoryShortage({ freeMemoryBytes }: HostRoom, floorBytes: number): string | undefined {
  if (freeMemoryBytes >= floorBytes) return undefined;
  const [free, floor] = byteSizes(freeMemoryBytes, floorBytes);
  const found = `${free} of memory are available on the worker's host`;
  const allowed = `it takes sessions from ${floor} on (ASSAY_MEMORY_FLOOR_BYTES)`;
  return `${found}, and ${allowed}; close a session, or try again later`;
}

/** Nothing is refused for it: sandboxes are promised no more than there is, unless the operator has raised the factor. */
function pidShortage({ totalPids, usedPids }: HostRoom): string | undefined {
  if (totalPids - usedPids >= totalPids * leastFreePids) return undefined;
  return `${usedPids} of the ${totalPids} processes and threads that the worker's host can have are in use; end some`;
}

function hostFull(message: string): DomainError {
  return new DomainError('HOST_FULL', message);
}
