import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import Docker from 'dockerode';
import { inject } from 'vitest';
import { runId } from '../run.ts';

/** The test's own look at the engine, beside the services that are tested. */
export interface EngineProbe {
  /** The one container of a session. */
  containerOf(sessionId: string): Promise<Docker.Container>;
  containersOf(sessionId: string): Promise<readonly { readonly Id: string }[]>;
  /** Makes an image of the files of a tar archive and returns its name. */
  importImage(name: string, archive: Buffer, changes?: string[]): Promise<string>;
  inspectImage(reference: string): Promise<{ readonly Id: string }>;
  /** Removes the image, and those that were derived from it. */
  removeImage(reference: string): Promise<void>;
}

export function createEngineProbe(): EngineProbe {
  const docker = new Docker({ socketPath: inject('setup').dockerSocket });
  const containersOf = (sessionId: string): Promise<Docker.ContainerInfo[]> =>
    docker.listContainers({ all: true, filters: { label: [`dev.assay.session=${sessionId}`] } });
  return {
    containersOf,
    async containerOf(sessionId) {
      const [found] = await containersOf(sessionId);
      if (found === undefined) throw new Error(`session ${sessionId} has no container`);
      return docker.getContainer(found.Id);
    },
    async importImage(name, archive, changes = []) {
      const repo = `assay-test/${name}`;
      await text(await docker.importImage(Readable.from([archive]), { repo, tag: runId(), changes }));
      return `${repo}:${runId()}`;
    },
    inspectImage: (reference) => docker.getImage(reference).inspect(),
    async removeImage(reference) {
      const { Id } = await docker.getImage(reference).inspect();
      const derived = await docker.listImages({ filters: { label: [`dev.assay.derived-from=${Id}`] } });
      for (const image of derived) await docker.getImage(image.Id).remove({ force: true });
      await docker.getImage(reference).remove({ force: true });
    },
  };
}
