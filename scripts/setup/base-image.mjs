import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { installPackages } from './apt.mjs';
import { digestOfFiles } from './digest.mjs';
import { SetupFailure } from './failure.mjs';
import { repository } from './paths.mjs';
import { findProgram } from './program.mjs';
import { step } from './progress.mjs';
import { archiveOf, withRootFileSystem } from './root-file-system.mjs';

const recipe = join(repository, 'images', 'base');
const source = 'debian:bookworm-slim';

/** The image's name holds the digest of its recipe: another recipe is another image. */
export function baseImageName() {
  return `assay/base:${digestOfFiles(recipe, /^[^.]/, process.arch).slice(0, 12)}`;
}

export async function hasBaseImage(api) {
  const image = await api.get(`/images/${baseImageName()}/json`);
  return image?.Config?.Labels?.['dev.assay.ready'] === '1';
}

/** Makes the base image unless it is there: from a registry where one answers, by debootstrap where none does. */
export async function ensureBaseImage(api, dataDir) {
  const name = baseImageName();
  if (await hasBaseImage(api)) return name;
  await step(`Making the base image ${name} (once, a minute or two)`, async (detail) => {
    const refusal = await buildFromRegistry(api, name, detail).then(
      () => undefined,
      (error) => error.message,
    );
    if (refusal) await bootstrap(api, name, dataDir, refusal, detail);
  });
  if (!(await hasBaseImage(api))) throw new SetupFailure(`the engine does not show ${name} after it was made`);
  return name;
}

async function buildFromRegistry(api, name, detail) {
  detail(`asking a registry for ${source}`);
  if (!(await api.get(`/images/${source}/json`))) {
    const [fromImage, tag] = source.split(':');
    // A registry that says nothing for five seconds is taken as none: debootstrap does not need it.
    await api.stream(`/images/create?${new URLSearchParams({ fromImage, tag })}`, { idleMs: 5000 });
  }
  const query = new URLSearchParams({ t: name, networkmode: 'host', forcerm: '1' });
  const archive = spawn('tar', ['-C', recipe, '-c', '.'], { stdio: ['ignore', 'pipe', 'ignore'] });
  await api.stream(`/build?${query}`, {
    body: archive.stdout,
    headers: { 'content-type': 'application/x-tar' },
    idleMs: 300_000,
    onEvent: (event) => detail(event.stream?.trim() ?? ''),
  });
}

async function bootstrap(api, name, dataDir, refusal, detail) {
  if (process.getuid?.() !== 0) {
    const command = 'sudo env ASSAY_DATA_DIR=/var/tmp/assay-setup node scripts/setup.mjs base-image';
    throw new SetupFailure(`no registry gave ${source} (${refusal}), and debootstrap needs root`, command);
  }
  if (!findProgram('debootstrap')) {
    await installPackages(['debootstrap', 'debian-archive-keyring'], `No registry gave ${source} (${refusal})`);
  }
  await withRootFileSystem(recipe, dataDir, detail, async (root) => {
    detail('handing the root file system to the engine');
    const archive = archiveOf(root);
    const query = new URLSearchParams({ fromSrc: '-' });
    for (const change of configurationLines()) query.append('changes', change);
    let id;
    await api.stream(`/images/create?${query}`, {
      body: archive.stream,
      headers: { 'content-type': 'application/x-tar' },
      idleMs: 600_000,
      onEvent: (event) => {
        id = event.status ?? id;
      },
    });
    // Half an archive makes an image too: it gets its name only once the whole was read.
    await archive.complete;
    const [repo, tag] = name.split(':');
    await api.post(`/images/${id}/tag?${new URLSearchParams({ repo, tag })}`);
  });
}

/** The lines of the recipe that make no layer, in the form that an import takes. */
function configurationLines() {
  const lines = readFileSync(join(recipe, 'Dockerfile'), 'utf8').split('\n');
  return lines.filter((line) => /^(ENV|LABEL|USER|WORKDIR|CMD) /.test(line));
}
