import { accessSync, constants, existsSync, statfsSync, statSync } from 'node:fs';
import { baseImageName, hasBaseImage } from './base-image.mjs';
import { brokerVersion, checkBrokerUrl } from './broker.mjs';
import { cProgramPath, cPrograms } from './c-program.mjs';
import { engineSocket, ownEngineIsDown } from './engine.mjs';
import { createEngineApi } from './engine-api.mjs';
import { startedEngine } from './engine-process.mjs';
import { SetupFailure } from './failure.mjs';
import { findNode, leastNode } from './node-runtime.mjs';
import { packagesProblem } from './packages.mjs';
import { dataDirectory } from './paths.mjs';
import { findProgram, run } from './program.mjs';

const leastFreeBytes = 5 * 2 ** 30;
const root = process.getuid?.() === 0;

const ok = (found) => ({ state: 'ok', found });
const warning = (found, type) => ({ state: 'warning', found, type });
const missing = (found, type) => ({ state: 'missing', found, type });

/** Looks at everything and changes nothing: one finding for each thing that Assay needs. */
export async function examine() {
  const findings = [];
  const add = async (name, look) => {
    const finding = await Promise.resolve()
      .then(look)
      .catch((error) => missing(error.found ?? error.message, error instanceof SetupFailure ? error.type : undefined));
    findings.push({ name, ...finding });
  };
  await add('node', lookAtNode);
  await add('npm packages', lookAtPackages);
  const api = await engineApi();
  await add('docker engine', () => lookAtEngine(api));
  await add('nats-server', lookAtBroker);
  await add('base image', () => lookAtImage(api));
  await add('guest', lookAtGuest);
  await add('user', lookAtUser);
  await add('disk limits', () => lookAtDiskLimits(api));
  await add('networks', lookAtNetworks);
  await add('data directory', lookAtDataDirectory);
  await add('free disk', lookAtFreeDisk);
  return findings;
}

async function lookAtNode() {
  const own = process.versions.node;
  if (Number(own.split('.')[0]) < 20) return missing(`${own}; expected 20 or newer`, 'install Node 20 or newer');
  const node = findNode();
  if (!node) return missing(`${own} runs the scripts; the services need ${leastNode} or newer`, 'npm start');
  return ok(`${own} runs the scripts, ${(await run(node, ['--version'])).trim()} the services (${node})`);
}

function lookAtPackages() {
  const problem = packagesProblem();
  return problem ? missing(problem, 'npm start') : ok('those of package-lock.json');
}

async function engineApi() {
  try {
    const api = createEngineApi(engineSocket());
    return (await api.answers()) ? api : undefined;
  } catch {
    return undefined;
  }
}

async function lookAtEngine(api) {
  if (!api) {
    const socket = engineSocket();
    if (existsSync(socket) && !open(socket)) {
      return missing(`${socket} is not open to this user`, 'sudo usermod -aG docker "$USER", then log in again');
    }
    if (process.env.DOCKER_HOST) return missing(`${socket} (from DOCKER_HOST) does not answer`, ownEngineIsDown);
    const installed = findProgram('dockerd') ? 'installed, but does not answer' : 'not installed';
    return missing(
      `${installed} (${socket})`,
      root ? 'npm start' : 'sudo apt-get install docker.io, then: sudo dockerd &',
    );
  }
  const info = await api.get('/info');
  const whose = startedEngine() ? 'started by set-up' : 'not ours';
  const text = `${info.ServerVersion}, ${info.Driver}, cgroup v${info.CgroupVersion}, ${api.socketPath}, ${whose}`;
  return info.Driver === 'overlay2' ? ok(text) : warning(`${text}; made for overlay2`);
}

async function lookAtBroker() {
  if (process.env.NATS_URL) {
    checkBrokerUrl(process.env.NATS_URL);
    return ok('the broker that NATS_URL names');
  }
  const program = findProgram('nats-server');
  if (!program) return missing('not installed', root ? 'npm start' : 'sudo apt-get install nats-server');
  return ok(`${await brokerVersion(program)}, ${program}`);
}

async function lookAtImage(api) {
  const name = baseImageName();
  if (!api) return missing(`${name}: no engine to ask`, process.env.DOCKER_HOST ? ownEngineIsDown : 'npm start');
  return (await hasBaseImage(api)) ? ok(name) : missing(`${name} is not made yet`, 'npm start');
}

function lookAtGuest() {
  const paths = Object.values(cPrograms).map((program) => cProgramPath(dataDirectory(), baseImageName(), program));
  const absent = paths.filter((path) => !existsSync(path));
  return absent.length === 0 ? ok(paths[0]) : missing('not built yet', 'npm start');
}

async function lookAtDiskLimits(api) {
  if (!root) return diskLimitsWithoutRoot(await api?.get('/info'));
  const absent = ['mkfs.ext4', 'mount', 'umount', 'losetup'].filter((name) => !findProgram(name));
  if (absent.length > 0) return missing(`${absent.join(', ')} not found`, 'apt-get install e2fsprogs mount');
  if (!existsSync('/dev/loop-control')) return missing('/dev/loop-control is missing', 'modprobe loop');
  return ok('loop devices and ext4');
}

/** Without root there is only what the engine limits by itself; whether it does is tried when the worker starts. */
function diskLimitsWithoutRoot(info) {
  const onXfs = info?.DriverStatus?.some(([name, value]) => name === 'Backing Filesystem' && value === 'xfs');
  if (onXfs || ['btrfs', 'zfs', 'devicemapper'].includes(info?.Driver)) {
    return warning(`without root only the engine's own (storage-opt size), where its ${info.Driver} allows it`);
  }
  if (process.env.ASSAY_ALLOW_UNLIMITED_DISK === 'true') {
    return warning('none without root, and accepted: a session may fill the disk', 'sudo npm start');
  }
  return missing(
    'none without root, and without them no session is made',
    'sudo npm start, or accept that a session may fill the disk: ASSAY_ALLOW_UNLIMITED_DISK=true npm start',
  );
}

function lookAtUser() {
  if (root) return ok('root');
  const lacking = 'no forks, no tests at FORK or SHARED, no figures of commands in shells';
  return warning(`an ordinary user: ${lacking} (docs/without-root.md)`, 'sudo npm start');
}

function lookAtNetworks() {
  if (!root) return warning('none without root: sessions have no network', 'sudo npm start');
  const absent = ['ip', 'nsenter', 'iptables', 'iptables-restore'].filter((name) => !findProgram(name));
  if (absent.length > 0) return warning(`egress; full needs ${absent.join(', ')}`, 'apt-get install iproute2 iptables');
  return ok('egress and full');
}

function lookAtDataDirectory() {
  const path = dataDirectory();
  if (!existsSync(path)) return warning(`${path} is not made yet`, 'npm start');
  if (!open(path)) return missing(`${path} is not open to this user`, 'sudo chown -R "$USER" that directory');
  const mode = statSync(path).mode & 0o777;
  return mode === 0o700 ? ok(path) : warning(`${path} has mode ${mode.toString(8)}; expected 700`, `chmod 700 ${path}`);
}

function lookAtFreeDisk() {
  const places = ['/var/lib/docker', dataDirectory()].map((path) => (existsSync(path) ? path : '/'));
  const free = Math.min(...places.map((path) => freeBytes(path)));
  const text = `${(free / 2 ** 30).toFixed(1)} GiB`;
  return free < leastFreeBytes ? warning(`${text}; expected at least 5 GiB`) : ok(text);
}

function freeBytes(path) {
  const { bavail, bsize } = statfsSync(path);
  return bavail * bsize;
}

function open(path) {
  try {
    accessSync(path, constants.R_OK | constants.W_OK);
    return true;
  } catch {
    return false;
  }
}
