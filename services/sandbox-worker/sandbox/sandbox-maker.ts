import { randomBytes } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import { SandboxFileSchema } from '../../../gen/assay/internal/v1/journal_pb.js';
import type { Logger } from '../../shared/log.ts';
import { openMemoryKills } from '../cgroup/container-usage.ts';
import type { ExecutionCgroups } from '../cgroup/execution-cgroup.ts';
import type { ContainerFiles, ContainerLimits, Engine, SandboxImage } from '../docker/engine.ts';
import type { CompleteLog } from '../log/transcript.ts';
import { environmentOf } from './environment.ts';
import { openRemains, openSandbox, type Sandbox, type SandboxLimits } from './sandbox.ts';
import type { Slot, Slots } from './slot.ts';

export const guestTimeoutMs = 20_000;

/** What a sandbox is to be. */
export interface SandboxPlan {
  /** Of its slot and, behind `assay-`, of its container: the session's id, or a name of its own. */
  readonly name: string;
  /** Empty where no session owns it yet. */
  readonly project: string;
  readonly sessionId: string;
  readonly image: SandboxImage;
  readonly env: Readonly<Record<string, string>>;
  readonly limits: ContainerLimits;
  readonly labels: Readonly<Record<string, string>>;
  /** Nobody waits for it: it is made while nobody else creates. */
  readonly background: boolean;
  /** The files it begins with, beside those of its image. */
  readonly files?: ContainerFiles | undefined;
}

export interface SandboxMakerDeps {
  readonly engine: Engine;
  readonly cgroups: ExecutionCgroups;
  readonly slots: Slots;
  readonly limits: SandboxLimits;
  readonly log: Logger;
}

/** Makes and unmakes sandboxes, whoever they are for. */
export interface SandboxMaker {
  /** The worker's side: directory, description, socket. */
  open(plan: SandboxPlan): Promise<Sandbox>;
  /** Container and guest; on failure the caller discards. */
  start(sandbox: Sandbox, plan: SandboxPlan): Promise<void>;
  /** The worker's side of a sandbox that a worker before this one made. */
  reopen(slot: Slot, containerId: string): Promise<Sandbox>;
  /** The container runs: its executions get cgroups, and processes are prepared. */
  enter(sandbox: Sandbox, pid: number): void;
  /** Removes all of a sandbox but its directory, in the order that leaves nothing unowned. */
  end(sandbox: Sandbox, message: string): Promise<void>;
  /** The same, and the directory. */
  discard(sandbox: Sandbox, message: string): Promise<void>;
  /** The log that lies in the directory of a sandbox that is gone. Undefined: none does. */
  remains(slot: Slot, message: string): CompleteLog | undefined;
}

export function createSandboxMaker({ engine, cgroups, slots, limits, log }: SandboxMakerDeps): SandboxMaker {
  const maker: SandboxMaker = {
    async open(plan) {
      const { project, sessionId, image } = plan;
      const { memoryBytes, diskBytes, ...limited } = plan.limits;
      // A limit that is not in force is not told.
      const disk = engine.capabilities.includes('disk_limit') ? { diskBytes: BigInt(diskBytes) } : {};
      const slot = slots.make(plan.name);
      const file = create(SandboxFileSchema, {
        project,
        sessionId,
        secret: randomBytes(32),
        imageId: image.id,
        env: environmentOf(image, plan.env),
        workingDirectory: image.workingDirectory,
        limits: { ...limited, memoryBytes: BigInt(memoryBytes), ...disk },
      });
      slot.save(file);
      return openSandbox(slot, file, limits, log);
    },
    async start(sandbox, plan) {
      const { file, slot } = sandbox;
      const container = await engine.run({
        name: `assay-${plan.name}`,
        imageId: plan.image.id,
        project: plan.project,
        labels: plan.labels,
        secretHex: Buffer.from(file.secret).toString('hex'),
        slotDirectory: slot.runDirectory,
        diskDirectory: slot.diskDirectory,
        limits: plan.limits,
        background: plan.background,
        files: plan.files,
      });
      file.containerId = container.id;
      slot.save(file);
      maker.enter(sandbox, container.pid);
      await sandbox.guestReady(guestTimeoutMs);
    },
    reopen(slot, containerId) {
      const file = slot.load();
      file.containerId = containerId;
      return openSandbox(slot, file, limits, log);
    },
    enter(sandbox, pid) {
      sandbox.pid = pid;
      sandbox.cgroups = cgroups.container(pid);
      if (sandbox.cgroups === undefined) sandbox.memoryKills = openMemoryKills(pid);
      if (sandbox.cgroups === undefined && cgroups.kind !== 'none') limits.meter.cgroupFailures.container += 1;
      sandbox.executions.prepare();
    },
    async end(sandbox, message) {
      sandbox.executions.lose(message);
      await sandbox.release();
      if (sandbox.file.containerId !== '') await engine.remove(sandbox.file.containerId, sandbox.project);
    },
    async discard(sandbox, message) {
      await maker.end(sandbox, message);
      sandbox.slot.remove();
    },
    remains: (slot, message) => openRemains(slot, limits, message),
  };
  return maker;
}
