import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
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
/** For machines without one. A Go toolchain is a module too, so the module proxy has it. */
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
    const go = own ?? (await fetchGo(directory, detail));
    // With a Go of the machine its caches serve; otherwise nothing of Go stays.
    const caches = own
      ? {}
      : { GOPATH: join(directory, 'path'), GOCACHE: join(directory, 'cache'), GOTOOLCHAIN: 'local' };
    const env = { ...caches, GOBIN: output, GOFLAGS: '-modcacherw', CGO_ENABLED: '0' };
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

async function machineGo() {
  const go = findProgram('go') ?? ['/usr/local/go/bin/go', '/usr/lib/go/bin/go'].find((known) => existsSync(known));
  if (!go) return undefined;
  const [, major, minor] = /go(\d+)\.(\d+)/.exec(await run(go, ['version'])) ?? [];
  const [oldestMajor, oldestMinor] = oldestGo;
  return Number(major) > oldestMajor || Number(minor) >= oldestMinor ? go : undefined;
}

/** Fetches a Go toolchain into the directory, and resolves to its `go`. */
async function fetchGo(directory, detail) {
  const [arch, digest] = goDigests[process.arch] ?? [];
  if (!arch)
    throw new SetupFailure(`no Go toolchain is known for ${process.arch}: install Go ${oldestGo.join('.')} or newer`);
  if (!findProgram('unzip')) await installPackages(['unzip'], 'The tests need Go, which comes as a zip archive');
  const proxy = (process.env.GOPROXY ?? '').split(/[,|]/).find((entry) => /^https?:/.test(entry));
  if (!proxy) {
    const needed = `Go ${oldestGo.join('.')} or newer, or GOPROXY with the address of a Go module proxy to fetch it from`;
    throw new SetupFailure(`found no Go, and GOPROXY names no module proxy: expected ${needed}`);
  }
  const name = `v0.0.1-${goVersion}.linux-${arch}`;
  const url = `${proxy}/golang.org/toolchain/@v/${name}.zip`;
  detail(`fetching ${goVersion}`);
  const response = await fetch(url);
  if (!response.ok) throw new SetupFailure(`${new URL(url).host} answered ${response.status} for ${goVersion}`);
  const bytes = Buffer.from(await response.arrayBuffer());
  const found = createHash('sha256').update(bytes).digest('hex');
  if (found !== digest) throw new SetupFailure(`${goVersion} has the digest ${found}, expected ${digest}`);
  const archive = join(directory, 'go.zip');
  writeFileSync(archive, bytes);
  await run('unzip', ['-q', archive, '-d', directory]);
  const root = join(directory, `golang.org/toolchain@${name}`);
  // The archive of a module has no modes.
  await run('chmod', ['-R', '+x', join(root, 'bin'), join(root, 'pkg', 'tool')]);
  return join(root, 'bin', 'go');
}
