import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DomainError } from '../../shared/domain-error.ts';
import type { Logger } from '../../shared/log.ts';
import { digestOf } from '../../shared/sample/digest.ts';
import type { SampleFolder } from '../../shared/sample/read-sample.ts';
import { BuildStepError } from '../docker/image-builder.ts';
import { createSemaphore } from '../docker/semaphore.ts';
import type { Admission } from '../host/admission.ts';
import { createProjectLimit, projectSlots } from '../host/project-share.ts';
import { FetchError } from '../image/fetch-source.ts';
import type { Manifests } from '../submission/manifests.ts';
import { createBuildLog, keepBuildLog } from './build-log.ts';
import { type BuildStep, buildImage, type ImageBuildDeps } from './image-build.ts';
import { type BuildAudience, createSharedBuild, type SharedBuild } from './shared-build.ts';

/** A line that a build printed, and what the build was at. */
export interface BuildProgress {
  readonly step: BuildStep;
  readonly line: string;
}

/** The images of samples on this worker's engine, each built once. */
export interface SampleImages {
  /**
   * The id of the sample's image, which sessions can run in and whose manifest is made. Builds it unless it is there, or
   * joins whoever builds it; projects take turns. The signal ends the wait; a build that nobody waits for is stopped, and
   * leaves nothing. IMAGE_BUILD_FAILED: the recipe does not work, and the message has the end of the log. BUILD_QUOTA: the
   * project has as many builds as it may have.
   */
  ensure(
    sample: SampleFolder,
    project: string,
    progress?: (news: BuildProgress) => void,
    signal?: AbortSignal,
  ): Promise<string>;
  /** The name that the image has, or will have, on the engine. */
  nameOf(imageDigest: string): string;
  /** `sha256:<hex>` over all that the image is made from: the sample's part, and the base image of this worker. */
  builtDigest(imageDigest: string): string;
}

export interface SampleImagesDeps extends Omit<ImageBuildDeps, 'directory'> {
  readonly manifests: Manifests;
  /** Its own: for sources during a build, and for the logs of failed builds. */
  readonly directory: string;
  /** Builds at one time; the others wait. */
  readonly builds: number;
  /** Of them, the percentage that one project may hold; 100: all of them. */
  readonly sharePercent: number;
  /** Builds of one project, those that wait included. */
  readonly buildsPerProject: number;
  readonly buildMs: number;
  readonly admission: Pick<Admission, 'checkWork'>;
  readonly log: Logger;
}

const sampleRepository = 'assay/sample';
const toldLines = 20;
const toldCharacters = 3_000;

export function createSampleImages(deps: SampleImagesDeps): SampleImages {
  const { engine, builder, manifests, log } = deps;
  const logs = join(deps.directory, 'logs');
  const work = join(deps.directory, 'work');
  const broken = existsSync(work) ? readdirSync(work) : [];
  rmSync(work, { recursive: true, force: true });
  mkdirSync(work, { recursive: true, mode: 0o700 });
  Promise.all(broken.map((mark) => builder.clear(mark))).catch((error) => {
    log.warn({ err: error }, 'layers of a build that broke off stay');
  });
  const queue = {
    inTurn: createSemaphore(deps.builds, () => projectSlots(deps.builds, deps.sharePercent)),
    enter: createProjectLimit({
      ...{ limit: deps.buildsPerProject, reason: 'BUILD_QUOTA', what: 'images' },
      setting: 'ASSAY_IMAGE_BUILDS_PER_PROJECT',
    }),
  };
  const running = new Map<string, SharedBuild>();

  const find = async (tag: string): Promise<string | undefined> => {
    try {
      return (await engine.image(`${sampleRepository}:${tag}`)).id;
    } catch (error) {
      if (error instanceof DomainError && error.reason === 'IMAGE_NOT_FOUND') return undefined;
      throw error;
    }
  };
  const build = async (sample: SampleFolder, tag: string, shared: BuildAudience): Promise<string> => {
    shared.signal.throwIfAborted();
    const found = await find(tag);
    if (found !== undefined) return found;
    deps.admission.checkWork();
    const kept = createBuildLog();
    const said = (step: BuildStep, line: string): void => {
      kept.add(line);
      shared.tell({ step, line });
    };
    const timer = setTimeout(() => shared.stop(tooLong(sample, deps.buildMs)), deps.buildMs);
    try {
      const id = await buildImage({ ...deps, directory: work }, sample, said, shared.signal);
      const named = await builder.name(id, sampleRepository, tag);
      // Another worker on this engine was quicker.
      if (named !== id) await builder.discard(id);
      const ready = await engine.image(named);
      said('manifest', 'reading what the image holds');
      await manifests.of(ready.id);
      return ready.id;
    } catch (error) {
      if (!(error instanceof BuildStepError || error instanceof FetchError)) throw error;
      kept.add(error.message);
      const file = keepBuildLog(logs, sample.digests.image, kept);
      log.warn({ ...nameOf(sample), log: file }, 'the image of a sample could not be built');
      throw failed(sample, error.message, kept.last(toldLines));
    } finally {
      clearTimeout(timer);
    }
  };
  const begin = (sample: SampleFolder, tag: string): SharedBuild => {
    const shared = createSharedBuild(queue, (audience) => build(sample, tag, audience));
    running.set(tag, shared);
    const forget = (): void => {
      if (running.get(tag) === shared) running.delete(tag);
    };
    shared.signal.addEventListener('abort', forget);
    shared.image.then(forget, forget);
    return shared;
  };
  const builtDigest = (imageDigest: string): string => digestOf('assay sample image 1', [imageDigest, deps.baseImage]);
  const tagOf = (imageDigest: string): string => builtDigest(imageDigest).slice('sha256:'.length);
  return {
    builtDigest,
    nameOf: (imageDigest) => `${sampleRepository}:${tagOf(imageDigest)}`,
    async ensure(sample, project, progress = () => {}, signal) {
      signal?.throwIfAborted();
      const tag = tagOf(sample.digests.image);
      const found = running.has(tag) ? undefined : await find(tag);
      if (found !== undefined) {
        await manifests.of(found);
        return found;
      }
      return (running.get(tag) ?? begin(sample, tag)).join(project, progress, signal);
    },
  };
}

function nameOf({ sample }: SampleFolder): { dataset: string; sample_id: string } {
  return { dataset: sample.dataset, sample_id: sample.id };
}

function failed(sample: SampleFolder, why: string, lines: readonly string[]): DomainError {
  const { dataset, sample_id } = nameOf(sample);
  const end = lines.join('\n').slice(-toldCharacters);
  const message = `the image of ${dataset}/${sample_id} cannot be built: ${why.slice(0, 1_000)}; its log ends with\n${end}`;
  return new DomainError('IMAGE_BUILD_FAILED', message, nameOf(sample));
}

function tooLong(sample: SampleFolder, ms: number): DomainError {
  const { dataset, sample_id } = nameOf(sample);
  const message = `building the image of ${dataset}/${sample_id} took more than ${ms / 1_000} s; ASSAY_IMAGE_BUILD_SECONDS allows more`;
  return new DomainError('IMAGE_BUILD_FAILED', message, nameOf(sample));
}
