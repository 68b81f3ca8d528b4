// The last public protos that were agreed on, as an image of buf's: what a change must not break.
import { join } from 'node:path';
import { SetupFailure } from './setup/failure.mjs';
import { repository } from './setup/paths.mjs';

export const baselinePath = join(repository, 'proto', 'baseline.binpb');

/** Fails if the protos break a client of the baseline. `buf` runs buf with these arguments, in the repository. */
export function checkBreaking(buf) {
  return buf('breaking', 'proto', '--against', baselinePath).catch((error) => {
    throw new SetupFailure(error.message, 'npm run generate -- --break, if clients are to break (CONTRIBUTING.md)');
  });
}

/** Writes the baseline that the present protos make. */
export function writeBaseline(buf, path = baselinePath) {
  const published = ['--path', 'proto/assay/v1', '--path', 'proto/assay/events'];
  return buf('build', 'proto', ...published, '--exclude-source-info', '--output', path);
}
