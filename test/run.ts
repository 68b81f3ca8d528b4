import { mkdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** One name for everything that a test run makes, so that two runs on one machine do not meet. */
export function runId(): string {
  const id = process.env.ASSAY_TEST_RUN;
  if (id === undefined) throw new Error('ASSAY_TEST_RUN is not set; run the tests with npm test');
  return id;
}

/** In the directory of a run: which process it belongs to. */
export const ownerFile = 'owner';

/** The directory below which a run keeps all its files. */
export function runDirectory(): string {
  const directory = join(tmpdir(), `assay-${runId()}`);
  // Programs of other users are run from below it.
  mkdirSync(directory, { recursive: true, mode: 0o711 });
  return directory;
}
