import Docker from 'dockerode';
import { DomainError } from '../../shared/domain-error.ts';
import { execInContainer } from './container-exec.ts';
import { killContainer } from './container-kill.ts';
import { containerLayer } from './container-layer.ts';
import { guestCommand } from './container-options.ts';
import { setPaused } from './container-pause.ts';
import { removeContainer } from './container-removal.ts';
import { createContainer, runContainer } from './container-run.ts';
import { createCreateQueue } from './create-queue.ts';
import { createNoDiskLimit, type DiskLimit } from './disk-limit.ts';
import { hasLayersHere, probeDiskLimit } from './disk-limit-probe.ts';
import type { ContainerSpec, ContainerSummary, Engine, EngineDeps, RunningContainer } from './engine.ts';
import { engineFailed, engineSilent, isAbsent } from './engine-failure.ts';
import { lacksRightToRaise, mayRaiseLimits } from './engine-rights.ts';
import { watchDeaths } from './event-watch.ts';
import { removeStaleIdleContainers } from './idle-container.ts';
import { createSandboxImages } from './sandbox-images.ts';
import { createSemaphore } from './semaphore.ts';

const requestTimeoutMs = 120_000;

/** The Docker engine behind a unix socket. */
export function createEngine(deps: EngineDeps): Engine {
  const { log, socketPath } = deps;
  // host: undefined, or a DOCKER_HOST in the environment would win over the socket that was asked for.
  const docker = new Docker({ socketPath, host: undefined, protocol: 'http', timeout: requestTimeoutMs });
  // Events may be silent for days, and a commit or an export for minutes.
  const patient = new Docker({ socketPath, host: undefined, protocol: 'http', timeout: 0 });
  const images = createSandboxImages(patient);
  const creating = createCreateQueue(deps.concurrency ?? 2);
  // A copy can take long, so forks hold no place of those who only create.
  const forking = createSemaphore(deps.concurrency ?? 2);
  const command = deps.command ?? guestCommand;
  let disk: DiskLimit = createNoDiskLimit();
  let raiseLimits = true;
  let layersHere = false;

  const runWithRights = async (spec: ContainerSpec): Promise<RunningContainer> => {
    const run = (raise: boolean) => runContainer({ docker, disk, log, command, raiseLimits: raise }, spec);
    try {
      return await run(raiseLimits);
    } catch (error) {
      if (!raiseLimits || !lacksRightToRaise(error)) throw error;
      const running = await run(false);
      raiseLimits = false;
      log.warn(
        'the engine lacks CAP_SYS_RESOURCE: sandboxes keep its open-file limit and the usual out-of-memory score',
      );
      return running;
    }
  };

  return {
    get capabilities() {
      return [...(disk.kind === 'none' ? [] : ['disk_limit']), ...(layersHere ? ['fork'] : [])];
    },
    get hasLayers() {
      return layersHere;
    },
    async ready() {
      await docker.ping().catch((error: unknown) => {
        throw engineSilent(socketPath, error);
      });
      try {
        disk = await probeDiskLimit(docker, deps.templateDirectory, log);
        raiseLimits = mayRaiseLimits();
        layersHere = process.geteuid?.() === 0 && (await hasLayersHere(docker));
        await removeStaleIdleContainers(docker, log);
      } catch (error) {
        throw engineFailed('being asked what it can do', error);
      }
    },
    image: images,
    imageIds: () => imageIds(docker),
    async run(spec) {
      if (disk.kind === 'none' && !deps.allowUnlimitedDisk) throw noDiskLimit();
      const run = () => runWithRights(spec);
      if (spec.files !== undefined || spec.fill !== undefined) return forking(run);
      return spec.background ? creating.runWhenIdle(run) : creating.run(run);
    },
    async create(spec) {
      if (disk.kind === 'none' && !deps.allowUnlimitedDisk) throw noDiskLimit();
      const create = () => createContainer({ docker, disk, log, command, raiseLimits }, spec);
      const made = await (spec.background ? creating.runWhenIdle(create) : creating.run(create));
      return {
        id: made.id,
        get upper() {
          return made.upper;
        },
        start: () => creating.run(() => made.start()),
      };
    },
    kill: (container) => killContainer(docker, container),
    pid: (id) => livePid(docker, id),
    rename: (id, name) => renameContainer(docker, id, name),
    // Patient: tests may be silent for as long as they like.
    exec: (id, spec) => execInContainer(patient, id, spec),
    layer: (id) => containerLayer(docker, id),
    archived: (id) => ({ socketPath, containerId: id }),
    imageOf: (id) => imageOf(docker, id),
    pause: (id) => setPaused(docker, id, true),
    resume: (id) => setPaused(docker, id, false),
    remove: (id) => removeContainer(docker, disk, id),
    list: (installation) => listContainers(docker, installation),
    watch: (installation, died, onConnect = () => {}) =>
      watchDeaths({ docker: patient, log, installation, died, onConnect }),
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
