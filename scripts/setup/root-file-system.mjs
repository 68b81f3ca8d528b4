import { spawn } from 'node:child_process';
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { SetupFailure } from './failure.mjs';
import { makePrivateDirectory } from './paths.mjs';
import { run } from './program.mjs';

const release = 'bookworm';
const publicMirror = 'http://deb.debian.org/debian';

/** Makes a Debian root file system from a recipe, gives it to `use`, and removes it however that ends. */
export async function withRootFileSystem(recipe, dataDir, detail, use) {
  const parent = makePrivateDirectory(join(dataDir, 'tmp'));
  // Set-up holds the data directory's lock: what is here was left by one that was killed.
  for (const left of readdirSync(parent)) {
    if (left.startsWith('root-')) rmSync(join(parent, left), { recursive: true, force: true });
  }
  const work = mkdtempSync(join(parent, 'root-'));
  try {
    const root = join(work, 'root');
    await debootstrap(recipe, root, detail);
    await configure(recipe, root);
    return await use(root);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

async function debootstrap(recipe, root, detail) {
  const packages = readFileSync(join(recipe, 'packages.txt'), 'utf8').split('\n').filter(Boolean);
  const args = ['--variant=minbase', `--include=${packages.join(',')}`, release, root, await mirror()];
  // Its mounts live in a name space of their own: none can be left behind, and none is met by the removal above.
  await run('unshare', ['--mount', '--propagation', 'private', 'debootstrap', ...args], {
    env: await proxy(),
    onLine: (line) => detail(line.replace(/^I: /, '')),
  });
}

async function configure(recipe, root) {
  const script = join(root, 'configure.sh');
  copyFileSync(join(recipe, 'configure.sh'), script);
  await run('chroot', [root, '/usr/bin/env', '-i', 'PATH=/usr/sbin:/usr/bin:/sbin:/bin', 'sh', '/configure.sh']);
  rmSync(script);
}

/** The archive of a directory as a stream, and a promise that it was read whole. */
export function archiveOf(root) {
  const tar = spawn('tar', ['--numeric-owner', '--one-file-system', '-C', root, '-c', '.'], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const complete = new Promise((resolve, reject) => {
    tar.on('error', reject);
    tar.on('close', (code) => (code === 0 ? resolve() : reject(new SetupFailure(`tar ended with status ${code}`))));
  });
  complete.catch(() => {});
  return { stream: tar.stdout, complete };
}

/** The mirror that this machine's own apt uses for the release, else the public one. */
async function mirror() {
  const format = '$(REPO_URI) $(CODENAME) $(COMPONENT)';
  const listed = await run('apt-get', ['indextargets', '--format', format]).catch(() => '');
  for (const line of listed.split('\n')) {
    const [uri, codename, component] = line.split(' ');
    if (codename === release && component === 'main' && /^https?:/.test(uri ?? '')) return uri;
  }
  return publicMirror;
}

async function proxy() {
  const told = await run('apt-config', ['shell', 'PROXY', 'Acquire::http::Proxy']).catch(() => '');
  const address = /^PROXY='(.+)'$/m.exec(told)?.[1];
  return address && !process.env.http_proxy ? { http_proxy: address } : {};
}
