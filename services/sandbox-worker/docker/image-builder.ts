import type { createReadStream } from 'node:fs';
import type { Readable } from 'node:stream';
import Docker from 'dockerode';
import { createBuildAnswer } from './build-answer.ts';
import { engineFailed, isAbsent, statusOf } from './engine-failure.ts';

/** One build of the engine. */
export interface BuildOrder {
  /** A tar stream. */
  readonly context: Readable;
  /** The Dockerfile's path in it. */
  readonly dockerfile: string;
  readonly args: Readonly<Record<string, string>>;
  readonly labels: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
  /** A line that the build printed. */
  said(line: string): void;
  /** A layer that the build made; whoever dies before the build ends can have them removed later. */
  made(layer: string): void;
}

/** A step of a build failed: the recipe's fault, not the engine's. */
export class BuildStepError extends Error {
  override readonly name = 'BuildStepError';
}

/** Builds images through the engine. Whatever does not become part of an image is gone when a build ends. */
export interface ImageBuilder {
  /** The id of the image. Rejects with a BuildStepError, with ENGINE_FAILED, or with the signal's reason. */
  build(order: BuildOrder): Promise<string>;
  /** Gives the image a name, unless another image has it already. Returns the id of the one that has it now. */
  name(id: string, repository: string, tag: string): Promise<string>;
  /** Removes an image that nothing is made of, with its unnamed parents; any other stays. */
  discard(id: string): Promise<void>;
  /** Removes what of these layers is part of no image that has a name. */
  clear(layers: readonly string[]): Promise<void>;
}

export function createImageBuilder(socketPath: string): ImageBuilder {
  // A build may be silent for minutes.
  const docker = new Docker({ socketPath, host: undefined, protocol: 'http', timeout: 0 });
  const inspect = (reference: string) =>
    docker
      .getImage(reference)
      .inspect()
      .catch((error: unknown) => {
        if (isAbsent(error)) return undefined;
        throw engineFailed(`looking for image ${reference}`, error);
      });
  const discard = async (id: string): Promise<void> => {
    const found = await inspect(id);
    if (found === undefined) return;
    try {
      await docker.getImage(found.Id).remove();
    } catch (error) {
      // 409: another image or a container is made of it.
      if (!isAbsent(error) && statusOf(error) !== 409) throw engineFailed(`removing image ${id}`, error);
    }
  };
  /** The engine ends a build whose caller is gone, in its own time; this waits for it. */
  const removeContainers = async (ids: readonly string[]): Promise<void> => {
    for (const id of ids) {
      await docker
        .getContainer(id)
        .remove({ force: true, v: true })
        .catch((error: unknown) => {
          // 409: it is being removed already.
          if (!isAbsent(error) && statusOf(error) !== 409) throw engineFailed(`removing container ${id}`, error);
        });
    }
  };
  /** Stages that were only copied from, and what a failed build got done. */
  const discardUnnamed = async (ids: readonly string[], image: string | undefined): Promise<void> => {
    for (const id of ids.toReversed()) {
      const found = await inspect(id);
      if (found === undefined || found.Id === image || (found.RepoTags ?? []).length > 0) continue;
      await discard(found.Id);
    }
  };

  return {
    discard,
    clear: (layers) => discardUnnamed(layers, undefined),
    async build(order) {
      order.signal.throwIfAborted();
      const answer = createBuildAnswer(order.said, order.made);
      let image: string | undefined;
      try {
        await run(docker, order, answer.take);
        if (answer.failure !== undefined) throw new BuildStepError(answer.failure);
        if (answer.image === undefined) throw new Error('it named no image');
        image = answer.image;
        return image;
      } catch (error) {
        order.signal.throwIfAborted();
        throw error instanceof BuildStepError ? error : engineFailed('building an image', error);
      } finally {
        await removeContainers(answer.containers);
        await discardUnnamed(answer.layers, image);
      }
    },
    async name(id, repository, tag) {
      const taken = await inspect(`${repository}:${tag}`);
      if (taken !== undefined) return taken.Id;
      try {
        await docker.getImage(id).tag({ repo: repository, tag });
        return id;
      } catch (error) {
        throw engineFailed(`naming image ${id}`, error);
      }
    },
  };
}

async function run(docker: Docker, order: BuildOrder, take: (chunk: Buffer) => void): Promise<void> {
  const { dockerfile, args, labels, signal } = order;
  const options = {
    dockerfile,
    buildargs: { ...args },
    labels: { ...labels },
    networkmode: 'host',
    rm: true,
    forcerm: true,
    // Layers of a build are its own, so that they can be removed without taking those of another.
    nocache: true,
    abortSignal: signal,
  };
  try {
    const answer = await docker.buildImage(order.context as ReturnType<typeof createReadStream>, options);
    for await (const chunk of answer) take(chunk as Buffer);
  } finally {
    order.context.destroy();
  }
}
