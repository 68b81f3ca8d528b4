import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { installPackages } from './apt.mjs';
import { SetupFailure } from './failure.mjs';
import { takeLock } from './lock.mjs';
import { dataDirectory, makePrivateDirectory } from './paths.mjs';
import { findProgram, run } from './program.mjs';
import { step } from './progress.mjs';

/** The nats-server that the tests run against beside the one of the machine. */
const brokerVersion = 'v2.15.2';
/** From this version on Go fetches the toolchain that a module asks for by itself. */
const oldestGo = [1, 21];
/** For machines whose Go is older. A Go toolchain is a module too, so any Go can fetch it. */
const goVersion = 'go1.26.8';
const goDigests = {
  x64: ['amd64', '30c2b1bf7dcc88d3eb0a1364e47ddd9128edb3110a30e8a0ef61cd5856b31de7'],
  arm64: ['arm64', '02b36b6787b3ac767668f630e2998df45a3b1f9ffee08d1bf3ef6487cd658d99'],
};

/** A current nats-server, built from its Go module unless it is there. Only the tests need it. */
export async function ensureCurrentBroker() {
  const parent = makePrivateDirectory(join(makePrivateDirectory(dataDirectory()), 'nats-server'));
  const path = join(parent, brokerVersion, 'nats-server');
  const lock = await takeLock(join(parent, 'build.lock'), { wait: true, purpose: 'building nats-server' });
  try {
    if (!existsSync(path)) await step(`Building nats-server ${brokerVersion}`, (detail) => build(parent, path, detail));
    return path;
  } finally {
    await lock.release();
  }
}

async function build(parent, path, detail) {
  const directory = mkdtempSync(join(parent, 'build-'));
  const output = join(directory, 'output');
  try {
    const own = await machineGo();
    // With a current Go of the machine its caches serve; otherwise nothing of what is fetched stays.
    const caches = own.isCurrent
      ? {}
      : { GOPATH: join(directory, 'path'), GOCACHE: join(directory, 'cache'), GOTOOLCHAIN: 'local' };
    const env = { ...caches, GOBIN: output, GOFLAGS: '-modcacherw', CGO_ENABLED: '0' };
    const go = own.isCurrent ? own.path : await fetchToolchain(own.path, env, detail);
    await run(go, ['install', `github.com/nats-io/nats-server/v2@${brokerVersion}`], { env, onLine: detail });
    renameSync(output, join(path, '..'));
  } catch (error) {
    throw new SetupFailure(
      `The tests need nats-server ${brokerVersion}, and building it failed: ${error.message}`,
      `go install github.com/nats-io/nats-server/v2@${brokerVersion} && install -D "$(go env GOPATH)/bin/nats-server" ${path}`,
    );
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/** The machine's Go; its package is installed where there is none. */
async function machineGo() {
  if (!findGo()) await installPackages(['golang-go'], `The tests need Go to build nats-server ${brokerVersion}`);
  const path = findGo();
  if (!path) throw new SetupFailure('found no Go after golang-go was installed', 'apt-get install golang-go');
  const [, major, minor] = /go(\d+)\.(\d+)/.exec(await run(path, ['version'])) ?? [];
  const [oldestMajor, oldestMinor] = oldestGo;
  return { path, isCurrent: Number(major) > oldestMajor || Number(minor) >= oldestMinor };
}

function findGo() {
  return findProgram('go') ?? ['/usr/local/go/bin/go', '/usr/lib/go/bin/go'].find((known) => existsSync(known));
}

/** Has an older Go fetch a toolchain into its GOPATH, by its module proxy. Resolves to the toolchain's `go`. */
async function fetchToolchain(go, env, detail) {
  const [arch, digest] = goDigests[process.arch] ?? [];
  if (!arch)
    throw new SetupFailure(`no Go toolchain is known for ${process.arch}: install Go ${oldestGo.join('.')} or newer`);
  detail(`fetching ${goVersion}`);
  const module = `golang.org/toolchain@v0.0.1-${goVersion}.linux-${arch}`;
  const { Zip: archive, Dir: root } = JSON.parse(await run(go, ['mod', 'download', '-json', module], { env }));
  const found = createHash('sha256').update(readFileSync(archive)).digest('hex');
  if (found !== digest) throw new SetupFailure(`${goVersion} has the digest ${found}, expected ${digest}`);
  // The archive of a module has no modes.
  await run('chmod', ['-R', '+x', join(root, 'bin'), join(root, 'pkg', 'tool')]);
  return join(root, 'bin', 'go');
}
