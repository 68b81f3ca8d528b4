import { chmod } from 'node:fs/promises';
import { join } from 'node:path';
import Docker from 'dockerode';
import { afterAll, beforeAll, inject } from 'vitest';
import { runId } from '../run.ts';
import { type } from './frame-codec.ts';
import { createGuestBuild, type GuestBuild, SECRET } from './guest-process.ts';
import { createTestWorker, type TestWorker } from './test-worker.ts';

export interface GuestContainer {
  readonly worker: TestWorker;
  /** The guest's pid outside. */
  readonly pid: number;
  stop(): Promise<void>;
}

export const SHELLS_MOUNT = '/run/assay-shell';

let sockets = 0;

/** The guest as PID 1 of the base image, which has all the shells that are supported. */
export async function startGuestContainer(build: GuestBuild): Promise<GuestContainer> {
  const name = `${process.pid}-container-${sockets++}.sock`;
  const worker = await createTestWorker(join(build.directory, name));
  await chmod(join(build.directory, name), 0o777);
  const { dockerSocket, baseImage } = inject('setup');
  const docker = new Docker({ socketPath: dockerSocket, host: undefined });
  const container = await docker.createContainer({
    Image: baseImage,
    Labels: { 'dev.assay.installation': runId() },
    Entrypoint: ['/build/guest'],
    Cmd: [`/build/${name}`],
    Env: [`ASSAY_GUEST_SECRET=${SECRET}`],
    User: '1000:1000',
    HostConfig: {
      NetworkMode: 'none',
      CapDrop: ['ALL'],
      SecurityOpt: ['no-new-privileges'],
      Binds: [`${build.directory}:/build:ro`],
      Tmpfs: { [SHELLS_MOUNT]: 'size=8m,nr_inodes=4096,uid=1000,gid=1000,mode=0700,noexec,nosuid,nodev' },
    },
  });
  await container.start();
  await worker.connected(1);
  return {
    worker,
    pid: (await container.inspect()).State.Pid,
    stop: async () => {
      await container.remove({ force: true });
      await worker.close();
    },
  };
}

/** One container for all tests of the file that calls it. */
export function useGuestContainer(): () => GuestContainer {
  let build: GuestBuild;
  let guest: GuestContainer;
  beforeAll(async () => {
    build = await createGuestBuild();
    guest = await startGuestContainer(build);
    await guest.worker.frame(type.SYNCED);
  });
  afterAll(async () => {
    await guest.stop();
    await build.remove();
  });
  return () => guest;
}
