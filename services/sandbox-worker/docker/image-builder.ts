import type { createReadStream } from 'node:fs';
import type { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import Docker from 'dockerode';
import { createBuildAnswer } from './build-answer.ts';
import { engineFailed, isAbsent, statusOf } from './engine-failure.ts';

/** What a build makes carries this label with the build's mark. */
export const buildLabel = 'dev.assay.build';

/** One build of the engine. */
export interface BuildOrder {
  /** A tar stream. */
  readonly context: Readable;
  /** The Dockerfile's path in it; each of its stages begins with `marked` lines. */
  readonly dockerfile: string;
  readonly args: Readonly<Record<string, string>>;
  readonly labels: Readonly<Record<string, string>>;
  /** By which all that the build makes is found. */
  readonly mark: string;
  readonly signal: AbortSignal;
  /** A line that the build printed. */
  said(line: string): void;
}

/** A Dockerfile whose stages carry a mark from their first step on. */
export function marked(dockerfile: string, mark: string): string {
  const lines = dockerfile.split('\n');
  const isStage = (line: string, index: number): boolean =>
    /^\s*FROM\s/i.test(line) && !/\\\s*$/.test(line) && !/\\\s*$/.test(lines[index - 1] ?? '');
  return lines
    .flatMap((line, index) => (isStage(line, index) ? [line, `LABEL ${buildLabel}=${mark}`] : [line]))
    .join('\n');
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
  /** Removes what a build left that broke off: what carries its mark and is part of no image that has a name. */
  clear(mark: string): Promise<void>;
}

/** The engine ends a build whose caller is gone in its own time, and finishes the step that it is at. */
const quietLooks = 3;
const mostLooks = 50;
const lookMs = 200;

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
    try {
      await docker.getImage(id).remove();
    } catch (error) {
      // 409: another image or a container is made of it.
      if (!isAbsent(error) && statusOf(error) !== 409) throw engineFailed(`removing image ${id}`, error);
    }
  };
  /** Returns how much was found. The image that was built has no name yet, and stays. */
  const clear = async (mark: string, image: string | undefined): Promise<number> => {
    const label = [`${buildLabel}=${mark}`];
    const failed = (error: unknown): never => {
      throw engineFailed('looking for what a build left', error);
    };
    const containers = await docker.listContainers({ all: true, filters: { label } }).catch(failed);
    for (const { Id } of containers) {
      await docker
        .getContainer(Id)
        .remove({ force: true, v: true })
        .catch((error: unknown) => {
          // 409: it is being removed already.
          if (!isAbsent(error) && statusOf(error) !== 409) throw engineFailed(`removing container ${Id}`, error);
        });
    }
    const unnamed = await docker.listImages({ filters: { label, dangling: ['true'] } }).catch(failed);
    const left = unnamed.filter(({ Id }) => Id !== image);
    for (const { Id } of left) await discard(Id);
    return containers.length + left.length;
  };
  const clearFully = async (mark: string): Promise<void> => {
    let quiet = 0;
    for (let look = 0; look < mostLooks && quiet < quietLooks; look += 1) {
      if (look > 0) await delay(lookMs);
      // Where something was found there may be more to come.
      quiet = (await clear(mark, undefined)) > 0 ? 0 : quiet + 1;
    }
  };

  return {
    discard,
    clear: async (mark) => void (await clear(mark, undefined)),
    async build(order) {
      order.signal.throwIfAborted();
      const answer = createBuildAnswer(order.said);
      try {
        await run(docker, order, answer.take);
        if (answer.failure !== undefined) throw new BuildStepError(answer.failure);
        if (answer.image === undefined) throw new Error('it named no image');
        await clear(order.mark, answer.image);
        return answer.image;
      } catch (error) {
        if (order.signal.aborted) await clearFully(order.mark);
        else await clear(order.mark, undefined);
        order.signal.throwIfAborted();
        throw error instanceof BuildStepError ? error : engineFailed('building an image', error);
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
