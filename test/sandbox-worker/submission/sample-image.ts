import { createHash } from 'node:crypto';
import { pack } from 'tar-stream';
import { baseImage, type ScratchHost } from '../docker/scratch-host.ts';

const repo = 'assay-test/submission';

const files: Readonly<Record<string, string>> = {
  'keep.txt': 'kept\n',
  'edit.txt': 'before\n',
  'same-size.txt': 'aaaa\n',
  'touched.txt': 'touched\n',
  'owner-only.txt': 'mode\n',
  'gone.txt': 'gone\n',
  'dir/a': 'a\n',
  'dir/b': 'b\n',
  'dir/sub/c': 'c\n',
  'remake/x': 'x\n',
  'remake/y': 'y\n',
  'rename-me/deep/f': 'f\n',
  'becomes-dir': 'file\n',
  'becomes-file/inner': 'inner\n',
  'becomes-link/inner': 'inner\n',
  'removed/all/of/it': 'it\n',
  'tests/test_a.py': 'assert True\n',
  'tests/test_b.py': 'assert True\n',
  'tests/data/one': '1\n',
};

/**
 * The id of an image with code in /workspace that belongs to the agent. Kept from run to run: making its manifest takes
 * seconds.
 */
export async function createSampleImage(host: ScratchHost): Promise<string> {
  const base = (await host.docker.getImage(baseImage()).inspect()).Id;
  const tag = createHash('sha256')
    .update(JSON.stringify([base, files]))
    .digest('hex')
    .slice(0, 16);
  const kept = await idOf(host, tag);
  if (kept !== undefined) return kept;
  const container = await host.docker.createContainer({
    Image: baseImage(),
    Cmd: ['/bin/true'],
    Labels: { 'dev.assay.installation': host.installation },
    HostConfig: { NetworkMode: 'none' },
  });
  try {
    await container.putArchive(workspace() as unknown as NodeJS.ReadableStream, { path: '/' });
    const { Id: id } = (await container.commit({ repo, tag: host.installation })) as { Id: string };
    const image = host.docker.getImage(`${repo}:${host.installation}`);
    // Another test may have been quicker.
    const quicker = await idOf(host, tag);
    if (quicker === undefined) await image.tag({ repo, tag });
    await image.remove();
    return quicker ?? id;
  } finally {
    await container.remove({ force: true });
  }
}

async function idOf(host: ScratchHost, tag: string): Promise<string | undefined> {
  const [found] = await host.docker.listImages({ filters: { reference: [`${repo}:${tag}`] } });
  return found?.Id;
}

function workspace() {
  const tar = pack();
  const owner = { uid: 1000, gid: 1000 };
  const directories = new Set(['workspace', 'workspace/empty']);
  for (const name of Object.keys(files)) {
    const parts = `workspace/${name}`.split('/').slice(0, -1);
    parts.forEach((_, depth) => void directories.add(parts.slice(0, depth + 1).join('/')));
  }
  for (const name of directories) tar.entry({ name, type: 'directory', mode: 0o755, ...owner });
  for (const [name, content] of Object.entries(files))
    tar.entry({ name: `workspace/${name}`, mode: 0o644, ...owner }, content);
  tar.entry({ name: 'workspace/link', type: 'symlink', linkname: 'keep.txt', ...owner });
  tar.entry({ name: 'workspace/moved-link', type: 'symlink', linkname: 'dir/a', ...owner });
  tar.finalize();
  return tar;
}
