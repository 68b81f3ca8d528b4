import { spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { SetupFailure } from './failure.mjs';
import { programPath } from './paths.mjs';
import { endProcess, findProcesses, identify, isSame } from './process-table.mjs';
import { findProgram } from './program.mjs';

/** Names the engine that set-up started, so that `npm run stop` of any clone ends that one and no other. */
export const engineRecord = '/run/assay-engine.json';
const enginePidFile = '/var/run/docker.pid';
const containerdState = '/var/run/docker/containerd';

/** Later attempts give up what the kernel may lack: containers of Assay have no network anyway. */
const attempts = [[], [], ['--iptables=false', '--ip6tables=false'], ['--iptables=false', '--bridge=none']];

export async function startEngine(api, dataDir) {
  const log = join(dataDir, 'logs', 'dockerd.log');
  mkdirSync(join(dataDir, 'logs'), { recursive: true, mode: 0o700 });
  const running = findProcesses((name, command) => name === 'dockerd' && command.length > 0);
  if (running.length > 0 && (await answersWithin(api, running[0], 30_000))) return;
  removeStalePidFile();
  writeFileSync(log, '', { mode: 0o600 });
  for (const options of attempts) {
    const engine = launch(api.socketPath, options, log);
    if (await answersWithin(api, engine, 60_000)) {
      writeFileSync(engineRecord, `${JSON.stringify({ ...engine, log })}\n`, { mode: 0o644 });
      return;
    }
    // A containerd that a killed engine left behind may need a moment before it answers.
    await endProcess(engine, 5000);
    await sleep(1000);
  }
  const tail = readFileSync(log, 'utf8').trim().split('\n').slice(-12).join('\n  ');
  throw new SetupFailure(`the Docker engine did not start; the end of ${log}:\n  ${tail}`, 'dockerd --debug');
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

/** The engine refuses to start while its pid file names any living process, be it another program's. */
function removeStalePidFile() {
  try {
    const pid = Number(readFileSync(enginePidFile, 'utf8'));
    if (identify(pid)?.name !== 'dockerd') rmSync(enginePidFile, { force: true });
  } catch {
    // No pid file.
  }
}

/** The engine that set-up started, if it still runs. */
export function startedEngine() {
  try {
    const record = JSON.parse(readFileSync(engineRecord, 'utf8'));
    return isSame(record) ? record : undefined;
  } catch {
    return undefined;
  }
}

/** Ends the engine that set-up started with its containerd and shims. Resolves to what was ended. */
export async function stopEngine() {
  const engine = startedEngine();
  if (!engine) {
    rmSync(engineRecord, { force: true });
    return [];
  }
  const family = findProcesses(
    (name, command) =>
      (name === 'containerd' && command.some((part) => part.startsWith(`${containerdState}/`))) ||
      (name.startsWith('containerd-shim') && command.some((part) => part.startsWith(containerdState))),
  );
  const ended = [engine, ...family];
  if (!(await endProcess(engine, 60_000))) throw new SetupFailure(`the engine (pid ${engine.pid}) does not end`);
  for (const member of family) {
    if (!(await endProcess(member, 5000))) throw new SetupFailure(`${member.name} (pid ${member.pid}) does not end`);
  }
  rmSync(engineRecord, { force: true });
  return ended;
}
