import { workerData } from 'node:worker_threads';
import { withImageFiles } from '../docker/image-files.ts';
import { manifestOf, writeManifest } from './manifest.ts';

/** What the thread that makes a manifest is told. Hashing a whole image would stall every stream of the worker. */
export interface ManifestOrder {
  readonly socketPath: string;
  readonly imageId: string;
  readonly file: string;
}

const { socketPath, imageId, file } = workerData as ManifestOrder;
writeManifest(file, imageId, await withImageFiles(socketPath, imageId, manifestOf));
