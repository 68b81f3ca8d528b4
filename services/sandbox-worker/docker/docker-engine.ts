import { join } from 'node:path';
import Docker from 'dockerode';
import { DomainError } from '../../shared/domain-error.ts';
import { execInContainer } from './container-exec.ts';
import { killContainer } from './container-kill.ts';
import { containerLayer } from './container-layer.ts';
import { guestCommand } from './container-options.ts';
import { setPaused } from './container-pause.ts';
import { removeContainer } from './container-removal.ts';
import { createContainer, type ImageCopies, type OwnIds, runContainer } from './container-run.ts';
import { createCreateQueue } from './create-queue.ts';
import { createNoDiskLimit, type DiskLimit } from './disk-limit.ts';
import { hasLayersHere, probeDiskLimit } from './disk-limit-probe.ts';
import type { ContainerSpec, ContainerSummary, Engine, EngineDeps, RunningContainer } from './engine.ts';
import { engineFailed, engineSilent, isAbsent } from './engine-failure.ts';
import { createAcrossRestarts } from './engine-return.ts';
import { lacksRightToRaise, mayRaiseLimits } from './engine-rights.ts';
import { watchDeaths } from './event-watch.ts';
import { createHostIdRange, hasIdMaps, hostIdsOf, mayMakeUserNamespaces } from './host-ids.ts';
import { removeStaleIdleContainers } from './idle-container.ts';
import { createLayerCopies, type LayerCopies } from './layer-copies.ts';
import { imageLayers } from './layer-directory.ts';
import { canShowLayers } from './layer-view.ts';
import { createSandboxImages } from './sandbox-images.ts';
import { createSemaphore, createSharedCount } from './semaphore.ts';

const requestTimeoutMs = 120_000;
const pingTimeoutMs = 5_000;

/** The Docker engine behind a unix socket. */
export function createEngine(deps: EngineDeps): Engine {
  const { log, socketPath } = deps;
  // host: undefined, or a DOCKER_HOST in the environment would win over the socket that was asked for.
  const docker = new Docker({ socketPath, host: undefined, protocol: 'http', timeout: requestTimeoutMs });
  // Events may be silent for days, and a commit or an export for minutes.
  const patient = new Docker({ socketPath, host: undefined, protocol: 'http', timeout: 0 });
  const impatient = new Docker({ socketPath, host: undefined, protocol: 'http', timeout: pingTimeoutMs });
  const { installation = '' } = deps;
  const images = createSandboxImages({ docker: patient, installation });
  // The engine takes a core for every call in flight: a project leaves one to the commands of others while there are any.
  const most = deps.concurrency ?? 2;
  const perProject = () => (deps.contended?.() ? 1 : most);
  const shared = createSharedCount();
  // One more than a project may have in flight: whoever comes second need not wait for what the first one asked for.
  const creating = createCreateQueue(most + 1, perProject, shared);
  const pausing = createSemaphore(most + 1, perProject, shared);
  const removing = createSemaphore(most + 2, perProject, shared);
  // By itself: a copy can take long, and pauses its source meanwhile.
  const forking = createSemaphore(most + 1, perProject);
  const acrossRestarts = createAcrossRestarts(() => impatient.ping());
  const command = deps.command ?? guestCommand;
  const copies = deps.layerCopies && createLayerCopies(deps.layerCopies);
  let disk: DiskLimit = createNoDiskLimit();
  let raiseLimits = true;
  let layersHere = false;
  let rootDirectory: string | undefined;
  let cpus: number | undefined;
  let ownIds: OwnIds | undefined;

  const runWithRights = async (spec: ContainerSpec): Promise<RunningContainer> => {
    const run = (raise: boolean) => runContainer({ docker, disk, log, command, raiseLimits: raise, ownIds }, spec);
    try {
      return await run(raiseLimits);
    } catch (error) {
      if (!raiseLimits || !lacksRightToRaise(error)) throw error;
      const running = await run(false);
      raiseLimits = false;
      log.warn('the engine lacks CAP_SYS_RESOURCE: sandboxes keep its open-file limit');
      return running;
    }
  };

  return {
    get capabilities() {
      const offered = { disk_limit: disk.kind !== 'none', fork: layersHere, host_ids: ownIds !== undefined };
      return Object.entries(offered).flatMap(([name, is]) => (is ? [name] : []));
    },
    get hasLayers() {
      return layersHere;
    },
    get rootDirectory() {
      return rootDirectory;
    },
    get cpus() {
      return cpus;
    },
    get disksInSlots() {
      return disk.kind === 'loop';
    },
    async ready() {
      await docker.ping().catch((error: unknown) => {
        throw engineSilent(socketPath, error);
      });
      try {
        disk = await probeDiskLimit(docker, deps.templateDirectory, log);
        const { DockerRootDir, NCPU }: { DockerRootDir: string; NCPU?: number } = await docker.info();
        rootDirectory = DockerRootDir;
        cpus = NCPU;
        raiseLimits = mayRaiseLimits();
        layersHere = process.geteuid?.() === 0 && (await hasLayersHere(docker));
        // Whatever is left there the engine itself removes at its next start.
        const found = layersHere ? await findOwnIds(deps, join(DockerRootDir, 'tmp')) : undefined;
        ownIds = found && { ...found, copies: await findCopies(found, copies, docker, deps) };
        await removeStaleIdleContainers({ docker, installation }, log);
      } catch (error) {
        throw engineFailed('being asked what it can do', error);
      }
    },
    ping: () => impatient.ping(),
    image: (reference) => acrossRestarts(() => images(reference)),
    imageIds: () => imageIds(docker),
    async copyImage(imageId) {
      await ownIds?.copies?.(imageId);
    },
    async sweepCopies() {
      await copies?.sweep();
    },
    async run(spec) {
      if (disk.kind === 'none' && !deps.allowUnlimitedDisk) throw noDiskLimit();
      const run = () => acrossRestarts(() => runWithRights(spec));
      if (spec.files !== undefined || spec.fill !== undefined) {
        return forking(run, spec.project, spec.files?.signal);
      }
      return spec.background ? creating.runInBackground(run) : creating.run(run, spec.project);
    },
    async create(spec) {
      if (disk.kind === 'none' && !deps.allowUnlimitedDisk) throw noDiskLimit();
      // Before it takes its turn: a copy can take long.
      if (spec.copiedImage) await ownIds?.copies?.(spec.imageId);
      const create = () => createContainer({ docker, disk, log, command, raiseLimits, ownIds }, spec);
      const made = await (spec.background ? creating.runInBackground(create) : creating.run(create, spec.project));
      return {
        id: made.id,
        get upper() {
          return made.upper;
        },
        start: () => creating.run(() => made.start(), spec.project),
      };
    },
    kill: (container) => killContainer(docker, container),
    pid: (id) => acrossRestarts(() => livePid(docker, id)),
    isStarted: (id) => acrossRestarts(() => isStarted(docker, id)),
    rename: (id, name) => acrossRestarts(() => renameContainer(docker, id, name)),
    // Patient: tests may be silent for as long as they like.
    exec: (id, spec) => execInContainer(patient, id, spec),
    layer: (id) => acrossRestarts(() => containerLayer(docker, id)),
    archived: (id) => ({ socketPath, containerId: id }),
    imageOf: (id) => acrossRestarts(() => imageOf(docker, id)),
    pause: (id, project) => pausing(() => setPaused(docker, id, true), project),
    resume: (id, project) => pausing(() => setPaused(docker, id, false), project),
    remove: (id, project) => removing(() => removeContainer(docker, disk, id), project),
    list: (installation) => listContainers(docker, installation),
    watch: (installation, died, onConnect = () => {}) =>
      watchDeaths({ docker: patient, log, installation, died, onConnect }),
  };
}

/** Finds, by trying, whether containers can have host ids of their own. A program that is not the guest would not take them. */
async function findOwnIds(
  { command, idmountPath, log }: EngineDeps,
  probeDirectory: string,
): Promise<OwnIds | undefined> {
  if (command !== undefined || idmountPath === undefined) return undefined;
  if (mayMakeUserNamespaces() && (await canShowLayers(idmountPath, probeDirectory))) {
    return { next: createHostIdRange(), idmountPath };
  }
  log.warn('sessions share one user id of the host: idmapped overlay layers or user namespaces cannot be had here');
  return undefined;
}

/** The copies are beside the templates, perhaps on a file system that cannot be shown with other ids. */
async function findCopies(
  { idmountPath }: OwnIds,
  copies: LayerCopies | undefined,
  docker: Docker,
  { templateDirectory, log }: EngineDeps,
): Promise<ImageCopies | undefined> {
  if (copies === undefined) return undefined;
  if (await canShowLayers(idmountPath, templateDirectory)) return imageCopies(docker, copies);
  log.warn(
    'gradings read the same files of an image as sessions: the data directory is on a file system without id maps',
  );
  return undefined;
}

/** An image is known by what it holds, so its layers are asked for once. */
function imageCopies(docker: Docker, copies: LayerCopies): ImageCopies {
  const known = new Map<string, readonly string[]>();
  return async (imageId) => {
    try {
      const layers = known.get(imageId) ?? imageLayers(await docker.getImage(imageId).inspect());
      known.set(imageId, layers);
      return await copies.ensure(layers);
    } catch (error) {
      throw engineFailed(`copying image ${imageId}`, error);
    }
  };
}

function noDiskLimit(): DomainError {
  return new DomainError(
    'ENGINE_FAILED',
    'this worker cannot limit the disk of a sandbox: it needs root on the host of an overlay2 engine, or an engine with ' +
      'storage-opt size; start it as root (sudo npm start), or accept sessions that may fill the disk of the host: ' +
      'ASSAY_ALLOW_UNLIMITED_DISK=true npm start',
  );
}

async function imageOf(docker: Docker, id: string): Promise<string> {
  try {
    return (await docker.getContainer(id).inspect()).Image;
  } catch (error) {
    if (isAbsent(error)) throw new DomainError('SANDBOX_LOST', `container ${id} is gone`, {}, { cause: error });
    throw engineFailed(`looking at container ${id}`, error);
  }
}

async function imageIds(docker: Docker): Promise<ReadonlySet<string>> {
  try {
    return new Set((await docker.listImages({ all: true })).map(({ Id }) => Id));
  } catch (error) {
    throw engineFailed('listing images', error);
  }
}

async function renameContainer(docker: Docker, id: string, name: string): Promise<void> {
  try {
    await docker.getContainer(id).rename({ name });
  } catch (error) {
    throw engineFailed(`renaming container ${id}`, error);
  }
}

async function livePid(docker: Docker, id: string): Promise<number | undefined> {
  try {
    const { State } = await docker.getContainer(id).inspect();
    return State.Running && State.Pid > 0 ? State.Pid : undefined;
  } catch (error) {
    if (isAbsent(error)) return undefined;
    throw engineFailed(`looking for container ${id}`, error);
  }
}

async function isStarted(docker: Docker, id: string): Promise<boolean> {
  try {
    const { Config, State } = await docker.getContainer(id).inspect();
    const ids = hostIdsOf(Config.User);
    return State.Running && (ids === undefined || hasIdMaps(State.Pid, ids));
  } catch (error) {
    if (isAbsent(error)) return false;
    throw engineFailed(`looking for container ${id}`, error);
  }
}

async function listContainers(docker: Docker, installation: string): Promise<ContainerSummary[]> {
  try {
    const found = await docker.listContainers({
      all: true,
      filters: { label: [`dev.assay.installation=${installation}`] },
    });
    return found.map(({ Id, Labels, State, Created }) => ({
      id: Id,
      labels: Labels,
      state: State,
      createdMs: Created * 1000,
    }));
  } catch (error) {
    throw engineFailed('listing containers', error);
  }
}
