import { join } from 'node:path';
import type { Logger } from '../../shared/log.ts';
import type { SampleReader } from '../../shared/store/sample-store.ts';
import type { WorkerConfig } from '../config.ts';
import type { Engine } from '../docker/engine.ts';
import { createImageBuilder } from '../docker/image-builder.ts';
import type { Admission } from '../host/admission.ts';
import type { Manifests } from '../submission/manifests.ts';
import { createSampleCache, type SampleCache } from './sample-cache.ts';
import { createSampleImages, type SampleImages } from './sample-images.ts';

/** What this worker knows of samples. */
export interface WorkerSamples {
  readonly cache: SampleCache;
  readonly images: SampleImages;
}

export interface WorkerSamplesDeps {
  readonly engine: Engine;
  readonly manifests: Manifests;
  readonly store: SampleReader;
  readonly dataDirectory: string;
  readonly admission: Admission;
  readonly log: Logger;
}

/** Both as the settings say. */
export function createWorkerSamples(config: WorkerConfig, deps: WorkerSamplesDeps): WorkerSamples {
  const { engine, manifests, store, dataDirectory, admission, log } = deps;
  const cache = createSampleCache({
    directory: join(dataDirectory, 'samples'),
    store,
    limits: { bytes: config.ASSAY_LIMIT_SAMPLE_BYTES, files: config.ASSAY_LIMIT_SAMPLE_FILES },
    maxBytes: config.ASSAY_SAMPLE_CACHE_BYTES,
    keptAlways: 32 + config.ASSAY_VERIFICATION_SLOTS,
  });
  const images = createSampleImages({
    engine,
    builder: createImageBuilder(config.ASSAY_DOCKER_SOCKET),
    manifests,
    baseImage: config.ASSAY_BASE_IMAGE,
    directory: join(dataDirectory, 'builds'),
    sources: {
      npmRegistry: config.ASSAY_NPM_REGISTRY,
      debianPools: config.ASSAY_DEBIAN_POOLS,
      maxBytes: config.ASSAY_SOURCE_BYTES,
      timeoutMs: config.ASSAY_SOURCE_SECONDS * 1_000,
    },
    admission,
    builds: config.ASSAY_IMAGE_BUILDS,
    sharePercent: config.ASSAY_PROJECT_SHARE,
    buildsPerProject: config.ASSAY_IMAGE_BUILDS_PER_PROJECT,
    buildMs: config.ASSAY_IMAGE_BUILD_SECONDS * 1_000,
    log,
  });
  const copiesAhead = config.ASSAY_ISOLATED_PATH !== undefined && config.ASSAY_GRADING_POOL > 0;
  return { cache, images: copiesAhead ? withCopiesAhead(images, deps) : images };
}

/** Who needs the image of a sample will soon need what is graded in it: the copy that gradings read is made meanwhile. */
function withCopiesAhead(
  images: SampleImages,
  { engine, log }: Pick<WorkerSamplesDeps, 'engine' | 'log'>,
): SampleImages {
  return {
    ...images,
    async ensure(...wanted) {
      const imageId = await images.ensure(...wanted);
      engine.copyImage(imageId).catch((error) => log.warn({ err: error }, 'an image could not be copied ahead'));
      return imageId;
    },
  };
}
