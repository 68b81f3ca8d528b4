import { spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createEngineApi, defaultSocket } from './engine-api.mjs';
import { countMounts, mountPoints, unmountLeftovers } from './engine-mounts.mjs';
import { SetupFailure } from './failure.mjs';
import { programPath } from './paths.mjs';
import { endProcess, findProcesses, identify, isSame, lowerOomScore } from './process-table.mjs';
import { findProgram } from './program.mjs';

/** As in Debian's docker.service. */
const engineOomScore = -500;

/** The one engine of a machine. */
const machineEngine = {
  socket: defaultSocket,
  /** Names the engine that set-up started, so that `npm run stop` of any clone ends that one and no other. */
  record: '/run/assay-engine.json',
  pidFile: '/var/run/docker.pid',
  containerdState: '/var/run/docker/containerd',
  settings: '/etc/docker/daemon.json',
  /** Later attempts give up what the kernel may lack: containers of Assay have no network anyway. */
  attempts: [[], [], ['--iptables=false', '--ip6tables=false'], ['--iptables=false', '--bridge=none']],
};

export async function startEngine(api, dataDir, place = machineEngine) {
  const log = join(dataDir, 'logs', 'dockerd.log');
  mkdirSync(join(dataDir, 'logs'), { recursive: true, mode: 0o700 });
  const running = runningEngine(place.pidFile);
  if (running && (await answersWithin(api, running, 30_000))) return;
  writeFileSync(log, '', { mode: 0o600 });
  const mounted = mountPoints();
  for (const options of place.attempts) {
    const engine = launch(place.socket, [...restartOptions(place.settings), ...options], log);
    if (await answersWithin(api, engine, 60_000)) {
      const record = { ...engine, log, ...(await rootOf(place, mounted)) };
      writeFileSync(place.record, `${JSON.stringify(record)}\n`, { mode: 0o644 });
      return;
    }
    // A containerd that a killed engine left behind may need a moment before it answers.
    await endProcess(engine, 5000);
    await sleep(1000);
  }
  const tail = readFileSync(log, 'utf8').trim().split('\n').slice(-12).join('\n  ');
  throw new SetupFailure(`the Docker engine did not start; the end of ${log}:\n  ${tail}`, 'dockerd --debug');
}

/** The engine's root directory, and how often something was mounted there before set-up first started an engine. */
async function rootOf(place, mounted) {
  const { DockerRootDir } = await createEngineApi(place.socket).get('/info');
  const root = realpathSync(DockerRootDir);
  const earlier = readRecord(place);
  return { root, rootMounts: earlier?.root === root ? earlier.rootMounts : countMounts(mounted, root) };
}

/** Containers outlive a restart of their engine, unless the machine's own settings say what is to happen. */
function restartOptions(settings) {
  try {
    // The engine refuses to start with an option that its settings name too.
    if ('live-restore' in JSON.parse(readFileSync(settings, 'utf8'))) return [];
  } catch {
    // No settings.
  }
  return ['--live-restore'];
}

function launch(socket, options, log) {
  const output = openSync(log, 'a', 0o600);
  const program = findProgram('dockerd') ?? 'dockerd';
  // The engine outlives us: with our standard output it would hold up whoever waits for its end.
  const child = spawn(program, ['--host', `unix://${socket}`, '--log-level', 'warn', ...options], {
    cwd: '/',
    detached: true,
    env: { ...process.env, PATH: programPath() },
    stdio: ['ignore', output, output],
  });
  closeSync(output);
  child.on('error', () => {});
  child.unref();
  lowerOomScore(child.pid, engineOomScore);
  return identify(child.pid) ?? { pid: child.pid ?? 0, name: 'dockerd', startTime: '' };
}

async function answersWithin(api, engine, ms) {
  const end = Date.now() + ms;
  while (isSame(engine) && Date.now() < end) {
    if (await api.answers()) return true;
    await sleep(100);
  }
  return false;
}

/** The engine of a pid file. It refuses to start while that file names any living process, be it another program's. */
function runningEngine(pidFile) {
  try {
    const found = identify(Number(readFileSync(pidFile, 'utf8')));
    if (found?.name === 'dockerd') return found;
    rmSync(pidFile, { force: true });
  } catch {
    // No pid file.
  }
  return undefined;
}

/** The engine that set-up started, if it still runs. */
export function startedEngine(place = machineEngine) {
  const record = readRecord(place);
  return isSame(record) ? record : undefined;
}

/** What set-up wrote down of the engine that it started last. */
function readRecord(place) {
  try {
    return JSON.parse(readFileSync(place.record, 'utf8'));
  } catch {
    return undefined;
  }
}

/**
 * Ends the engine that set-up started with its containers, its containerd and shims, and unmounts what it leaves. Resolves
 * to what was ended, and to the mount points that are still in use.
 */
export async function stopEngine(place = machineEngine) {
  const engine = startedEngine(place);
  const ended = engine ? await endEngine(engine, place) : [];
  const record = readRecord(place);
  // An engine that somebody else has started since may have the same root directory.
  const mayUnmount = record?.root !== undefined && runningEngine(place.pidFile) === undefined;
  const mounted = mayUnmount ? await unmountLeftovers({ ...record, containerdState: place.containerdState }) : [];
  rmSync(place.record, { force: true });
  return { ended, mounted };
}

async function endEngine(engine, place) {
  await stopContainers(createEngineApi(place.socket));
  const belongs = (part) => part.startsWith(`${place.containerdState}/`) || part === place.containerdState;
  const family = findProcesses((name, command) => name.startsWith('containerd') && command.some(belongs));
  const ended = [engine, ...family];
  if (!(await endProcess(engine, 60_000))) throw new SetupFailure(`the engine (pid ${engine.pid}) does not end`);
  for (const member of family) {
    if (!(await endProcess(member, 5000))) throw new SetupFailure(`${member.name} (pid ${member.pid}) does not end`);
  }
  return ended;
}

/** An engine with live-restore leaves its containers running when it ends. */
async function stopContainers(api) {
  const running = await api.get('/containers/json');
  await Promise.all(running.map(({ Id }) => api.post(`/containers/${Id}/stop?t=10`)));
}
