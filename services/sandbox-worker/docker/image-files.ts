import Docker from 'dockerode';
import { engineFailed } from './engine-failure.ts';
import { createAcrossRestarts } from './engine-return.ts';
import { withIdleContainer } from './idle-container.ts';

/**
 * The root of an image, as a tar stream that the engine makes of a container that is never started; it needs no root. If the
 * engine is restarted meanwhile, a whole stream is used once more.
 */
export async function withImageFiles<T>(
  { socketPath, installation }: { readonly socketPath: string; readonly installation: string },
  imageId: string,
  use: (tar: AsyncIterable<Buffer>) => Promise<T>,
): Promise<T> {
  const docker = new Docker({ socketPath, host: undefined, protocol: 'http', timeout: 0 });
  const read = () =>
    withIdleContainer({ docker, installation }, imageId, {}, async (container) => {
      const tar = await container.export();
      try {
        return await use(tar as unknown as AsyncIterable<Buffer>);
      } finally {
        (tar as unknown as { destroy(): void }).destroy();
      }
    });
  try {
    return await createAcrossRestarts(() => docker.ping())(read);
  } catch (error) {
    throw engineFailed(`reading the files of image ${imageId}`, error);
  }
}
