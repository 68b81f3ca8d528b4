import type { ServiceImpl } from '@connectrpc/connect';
import { BuildStep } from '../../../gen/assay/v1/sample_pb.js';
import type { BuildSampleImageResponse, WorkerService } from '../../../gen/assay/worker/v1/worker_pb.js';
import { type Channel, createChannel } from '../../shared/channel.ts';
import type { BuildProgress } from '../sample/sample-images.ts';
import type { WorkerSamples } from '../sample/worker-samples.ts';

const steps = {
  fetching: BuildStep.FETCHING,
  environment: BuildStep.ENVIRONMENT,
  code: BuildStep.CODE,
  manifest: BuildStep.MANIFEST,
} as const;

type News = BuildSampleImageResponse['news'];

/** The worker's calls that have to do with samples. */
export function createSampleCalls({
  cache,
  images,
}: WorkerSamples): Pick<ServiceImpl<typeof WorkerService>, 'buildSampleImage'> {
  const build = async (contentDigest: string, channel: Channel<News>, signal: AbortSignal): Promise<void> => {
    const tell = ({ step, line }: BuildProgress): void => {
      const value = { $typeName: 'assay.v1.BuildProgress', workerId: '', step: steps[step], line } as const;
      channel.send({ case: 'progress', value });
    };
    const sample = await cache.folder(contentDigest);
    const imageId = await images.ensure(sample, tell, signal);
    const image = images.nameOf(sample.digests.image);
    channel.send({ case: 'built', value: { $typeName: 'assay.v1.BuiltImage', workerId: '', image, imageId } });
  };
  return {
    async *buildSampleImage({ contentDigest }, { signal }) {
      const channel = createChannel<News>();
      build(contentDigest, channel, signal).then(
        () => channel.close(),
        (error: unknown) => channel.close(error),
      );
      for await (const news of channel) yield { news };
    },
  };
}
