import { withImageFiles } from '../docker/image-files.ts';
import { manifestOf, writeManifest } from './manifest.ts';

/**
 * What the process that makes a manifest is told. Hashing a whole image would stall every stream of the worker; and what
 * it takes, a hundred MiB, is given back only by the end of a process, not by that of a thread.
 */
export interface ManifestOrder {
  readonly socketPath: string;
  readonly installation: string;
  readonly imageId: string;
  readonly file: string;
}

// The other end of this pipe is the worker: without it, there is nobody to make it for.
process.stdin.on('end', () => process.exit(1)).resume();
const { imageId, file, ...host } = JSON.parse(process.argv[2] ?? '') as ManifestOrder;
try {
  writeManifest(file, imageId, await withImageFiles(host, imageId, manifestOf));
  process.exit(0);
} catch (error) {
  process.stderr.write(error instanceof Error ? error.message : String(error), () => process.exit(1));
}
