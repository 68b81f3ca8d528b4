import { chmodSync, existsSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { digestOfFiles } from './digest.mjs';
import { SetupFailure } from './failure.mjs';
import { makePrivateDirectory, repository } from './paths.mjs';
import { step } from './progress.mjs';

/**
 * The programs of ours in C: PID 1 of every container with the door into its network, and what runs a submission's programs
 * for its tests.
 */
export const cPrograms = {
  guest: { name: 'guest', beside: ['netdoor', 'idmount', 'launcher'], source: join(repository, 'guest') },
  isolated: { name: 'isolated', beside: [], source: join(repository, 'runner') },
};
const buildLabel = 'dev.assay.guest-build';

/** Where the program of these sources and this image (its compiler and C library) belongs. */
export function cProgramPath(dataDir, baseImage, { name, source }) {
  const digest = digestOfFiles(source, /(\.[ch]|^Makefile)$/, baseImage).slice(0, 16);
  return join(dataDir, name, digest, name);
}

/** Builds a program inside the base image, unless it is there. */
export async function ensureCProgram(api, dataDir, baseImage, program) {
  const { name, beside } = program;
  const path = cProgramPath(dataDir, baseImage, program);
  if (existsSync(path)) return path;
  await step(`Building ${name}`, async () => {
    const parent = makePrivateDirectory(join(dataDir, name));
    await removeLeftovers(api, parent);
    const build = mkdtempSync(join(parent, 'build-'));
    try {
      await compile(api, baseImage, program, build);
      for (const file of [name, ...beside]) chmodSync(join(build, file), 0o755);
      chmodSync(build, 0o755);
      // The directory appears whole or not at all.
      renameSync(build, join(path, '..'));
    } finally {
      rmSync(build, { recursive: true, force: true });
    }
  });
  return path;
}

/** What a build that was killed left; set-up holds the data directory's lock, so that none is under way. */
async function removeLeftovers(api, parent) {
  const filters = JSON.stringify({ label: [`${buildLabel}=${parent}`] });
  for (const { Id } of await api.get(`/containers/json?${new URLSearchParams({ all: '1', filters })}`)) {
    await api.remove(`/containers/${Id}?force=1&v=1`);
  }
  for (const left of readdirSync(parent)) {
    if (left.startsWith('build-')) rmSync(join(parent, left), { recursive: true, force: true });
  }
}

async function compile(api, image, { name, beside, source }, output) {
  const created = await api.post('/containers/create', {
    Image: image,
    User: `${process.getuid?.() ?? 0}:${process.getgid?.() ?? 0}`,
    Entrypoint: ['make', '-C', '/source', 'BUILD=/build', ...[name, ...beside].map((file) => `/build/${file}`)],
    Cmd: [],
    // With a terminal the log is plain text; a dumb one keeps the compiler's colours out of it.
    Tty: true,
    Env: ['TERM=dumb'],
    Labels: { [buildLabel]: dirname(output) },
    HostConfig: {
      NetworkMode: 'none',
      SecurityOpt: ['no-new-privileges'],
      Mounts: [
        { Type: 'bind', Source: source, Target: '/source', ReadOnly: true },
        { Type: 'bind', Source: output, Target: '/build' },
      ],
    },
  });
  try {
    await api.post(`/containers/${created.Id}/start`);
    const { StatusCode: status } = await api.post(`/containers/${created.Id}/wait`, undefined, { idleMs: 300_000 });
    if (status === 0 && existsSync(join(output, name))) return;
    const { text } = await api.send('GET', `/containers/${created.Id}/logs?stdout=1&stderr=1&tail=60`);
    throw new SetupFailure(`${name} did not compile (make ended with ${status}):\n${text.trim()}`);
  } finally {
    await api.remove(`/containers/${created.Id}?force=1&v=1`);
  }
}
