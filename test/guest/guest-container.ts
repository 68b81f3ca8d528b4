import { chmod } from 'node:fs/promises';
import { join } from 'node:path';
import Docker from 'dockerode';
import { inject } from 'vitest';
import { runId } from '../run.ts';
import { type GuestBuild, SECRET } from './guest-process.ts';
import { createTestWorker, type TestWorker } from './test-worker.ts';

export interface GuestContainer {
  readonly worker: TestWorker;
  /** What a program prints that is run beside the guest, as the guest's user. */
  inside(...command: string[]): Promise<string>;
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
    inside: async (...command) => {
      const exec = await container.exec({ Cmd: command, AttachStdout: true, Tty: true });
      const stream = await exec.start({ Tty: true });
      const chunks: Buffer[] = [];
      for await (const chunk of stream) chunks.push(chunk as Buffer);
      return Buffer.concat(chunks).toString().replaceAll('\r', '');
    },
    stop: async () => {
      await container.remove({ force: true });
      await worker.close();
    },
  };
}
