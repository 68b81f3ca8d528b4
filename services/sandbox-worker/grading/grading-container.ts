import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { abortable } from '../../shared/abortable.ts';
import { DomainError } from '../../shared/domain-error.ts';
import type { Logger } from '../../shared/log.ts';
import { openContainerUsage } from '../cgroup/container-usage.ts';
import type { ExecutionUsage } from '../cgroup/execution-cgroup.ts';
import { type ArchivedContainer, openArchivedFiles } from '../docker/archived-files.ts';
import type { ContainerLayer } from '../docker/container-layer.ts';
import type { ContainerLimits, CreatedContainer, Engine, RunningContainer } from '../docker/engine.ts';
import type { ApplyPlace } from '../submission/apply-work.ts';
import { readArchivedReport } from './archived-report.ts';
import type { GradingSlot, GradingSlots } from './grading-slot.ts';
import { type GuestCommand, type GuestCommands, listenForCommands, type RunningCommand } from './guest-commands.ts';
import { type ReportBytes, readReportFile } from './report-folder.ts';

const installationLabel = 'dev.assay.installation';
/** Marks the containers that are made for gradings, and tells for which. */
export const kindLabel = 'dev.assay.kind';
export const gradingKind = 'grading';
const verificationLabel = 'dev.assay.verification';
const slotLabel = 'dev.assay.slot';

const guestTimeoutMs = 20_000;

export interface ContainerOrder {
  readonly imageId: string;
  readonly limits: ContainerLimits;
  /** None while nobody knows what it will be used for. */
  readonly verificationId: string | undefined;
  /** Who waits for it: projects take turns. */
  readonly project?: string | undefined;
  readonly background: boolean;
}

/** A container of two users. It is created pristine, filled from outside, killed and removed; nobody has it twice. */
export interface GradingContainer {
  readonly id: string;
  /** Whether its guest is there, or may still come. */
  readonly alive: boolean;
  /** Whether it runs already; nothing but its guest does. */
  readonly started: boolean;
  /** Where its files can be changed until something is run. */
  readonly place: ApplyPlace;
  /** Where its files are; throws where this worker cannot reach them so. */
  readonly upper: string;
  /** Reads a file of its report folder when it was killed. */
  report(path: string, limitBytes: number): Promise<ReportBytes>;
  start(): Promise<void>;
  /** Starts it before it is filled, so that nobody has to wait for it then. */
  startEmpty(): Promise<void>;
  /** Waits for its guest. */
  connect(signal: AbortSignal): Promise<void>;
  run(command: GuestCommand): RunningCommand;
  /** Looks at its files while nothing in it moves; undefined where this worker cannot reach them so. */
  whileStill<T>(look: (layer: ContainerLayer) => Promise<T>): Promise<T | undefined>;
  /** What was used so far; undefined where it cannot be known. */
  usage(): ExecutionUsage | undefined;
  /** Ends every process; when it resolves, none is left. */
  kill(): Promise<void>;
  /** Removes all of it, in whatever state it is. */
  remove(): Promise<void>;
}

export interface GradingContainers {
  create(order: ContainerOrder): Promise<GradingContainer>;
  /** Removes what is not in use here: what a worker before this one left, or what could not be removed at once. */
  sweep(): Promise<void>;
}

export interface GradingContainerDeps {
  readonly engine: Engine;
  readonly slots: GradingSlots;
  readonly installation: string;
  readonly log: Logger;
}

export function createGradingContainers({ engine, slots, installation, log }: GradingContainerDeps): GradingContainers {
  /** The slots in use, from before their containers are made. */
  const live = new Set<string>();

  const create = async (order: ContainerOrder, slot: GradingSlot, secret: Buffer): Promise<CreatedContainer> =>
    engine.create({
      name: `assay-grading-${slot.name}`,
      imageId: order.imageId,
      ...(order.project === undefined ? {} : { project: order.project }),
      labels: {
        [installationLabel]: installation,
        [kindLabel]: gradingKind,
        [slotLabel]: slot.name,
        ...(order.verificationId === undefined ? {} : { [verificationLabel]: order.verificationId }),
      },
      secretHex: secret.toString('hex'),
      slotDirectory: slot.runDirectory,
      diskDirectory: slot.diskDirectory,
      limits: order.limits,
      rootGuest: true,
      copiedImage: true,
      background: order.background,
    });

  return {
    async sweep() {
      for (const { id, labels } of await engine.list(installation)) {
        if (labels[kindLabel] !== gradingKind || live.has(labels[slotLabel] ?? '')) continue;
        log.warn({ container: id, verification: labels[verificationLabel] }, 'removing a container of no grading');
        // One that cannot be removed keeps neither the others nor the worker.
        await engine.remove(id).catch((error) => log.error({ container: id, err: error }, 'left for the next sweep'));
      }
    },
    async create(order) {
      const slot = slots.make();
      live.add(slot.name);
      const free = (): void => {
        slot.remove();
        live.delete(slot.name);
      };
      const secret = randomBytes(32);
      let commands: GuestCommands | undefined;
      try {
        commands = await listenForCommands(slot.socketPath, secret, log);
        const container = await create(order, slot, secret);
        const archived = engine.hasLayers ? undefined : engine.archived(container.id);
        return grading(engine, { container, archived, commands, slot }, free);
      } catch (error) {
        await commands?.close();
        free();
        throw error;
      }
    },
  };
}

interface GradingParts {
  readonly container: CreatedContainer;
  /** How its files are reached where there is no other way. */
  readonly archived: ArchivedContainer | undefined;
  readonly commands: GuestCommands;
  readonly slot: GradingSlot;
}

function grading(
  engine: Engine,
  { container, archived, commands, slot }: GradingParts,
  freed: () => void,
): GradingContainer {
  let running: RunningContainer | undefined;
  let root: Pick<ContainerLayer, 'merged' | 'ids'> = { merged: '' };
  let usage: (() => ExecutionUsage) | undefined;
  let removal: Promise<void> | undefined;
  const removeAll = async (): Promise<void> => {
    await commands.close();
    try {
      await engine.remove(container.id);
    } finally {
      // One that could not be removed is nobody's from here on, so a sweep takes it.
      freed();
    }
  };
  const start = async (): Promise<void> => {
    running = await container.start();
    usage = openContainerUsage(running.pid);
  };
  return {
    id: container.id,
    get alive() {
      return commands.alive;
    },
    get started() {
      return running !== undefined;
    },
    get place() {
      if (archived !== undefined) return { archived, staged: join(slot.stagingDirectory, 'submission.tar') };
      return running === undefined ? { upper: container.upper } : root;
    },
    get upper() {
      return container.upper;
    },
    report: async (path, limitBytes) =>
      archived === undefined
        ? readReportFile(container.upper, path, limitBytes)
        : readArchivedReport(openArchivedFiles(archived), path, limitBytes),
    start,
    async startEmpty() {
      await start();
      if (archived !== undefined) return;
      const { merged, ids } = await engine.layer(container.id);
      root = { merged, ids };
    },
    async connect(signal) {
      const late = AbortSignal.timeout(guestTimeoutMs);
      await abortable(AbortSignal.any([signal, late]), commands.ready).catch((error: unknown) => {
        if (signal.aborted || !late.aborted) throw error;
        throw new DomainError('SANDBOX_LOST', `the container's guest did not answer within ${guestTimeoutMs} ms`);
      });
    },
    run: (command) => commands.start(command),
    async whileStill(look) {
      if (archived !== undefined) return undefined;
      await engine.pause(container.id);
      try {
        return await look(await engine.layer(container.id));
      } finally {
        await engine.resume(container.id);
      }
    },
    usage: () => usage?.(),
    async kill() {
      if (running !== undefined) await engine.kill(running);
    },
    remove() {
      removal ??= removeAll();
      return removal;
    },
  };
}
