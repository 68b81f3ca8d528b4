import { lstatSync, type Stats } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { abortable } from '../../shared/abortable.ts';
import { DomainError } from '../../shared/domain-error.ts';
import type { ContainerExec } from '../docker/container-exec.ts';
import type { Engine } from '../docker/engine.ts';
import { isGraderOnHost, toHostId } from '../docker/host-ids.ts';
import { removeFilesOf, removeTree } from '../docker/user-files.ts';
import { killUsers, namespaceOf, namespacesOfUsers } from '../docker/user-processes.ts';
import type { Finished } from '../grading/command-outcome.ts';
import { graderHome, graderUser } from '../grading/grading-place.ts';
import type { GuestCommand } from '../grading/guest-commands.ts';
import type { SessionPlace } from '../grading/in-place.ts';
import { createOutputKeeper } from '../grading/kept-output.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import type { Sandboxes } from '../sandbox/sandboxes.ts';

export interface PlaceDeps {
  readonly engine: Pick<Engine, 'exec' | 'hasLayers' | 'layer' | 'pid'>;
  readonly sandboxes: Pick<Sandboxes, 'live' | 'sealSource'>;
}

/** How often the engine is asked whether a program runs still. */
const lookMs = 100;
const drainMs = 2_000;
/** So long in all a run waits for a session that is paused meanwhile: it has a slot that others may need. */
const mostPausedMs = 10_000;

/** A session as a place for tests. What they leave is taken away by clearPlace(). */
export async function openPlace(deps: PlaceDeps, sandbox: Sandbox, signal: AbortSignal): Promise<SessionPlace> {
  const { merged, ids, upper } = await deps.engine.layer(sandbox.file.containerId);
  checkRoot(merged);
  return { merged, ids, upper, run: (command, seconds) => runIn(deps, sandbox, command, seconds, signal) };
}

async function runIn(
  deps: PlaceDeps,
  sandbox: Sandbox,
  command: GuestCommand,
  timeoutSeconds: number,
  signal: AbortSignal,
): Promise<Finished> {
  const stdout = createOutputKeeper(command.outputBytes);
  const stderr = createOutputKeeper(command.outputBytes);
  const takers = { stdout: (data: Buffer) => stdout.take(data), stderr: (data: Buffer) => stderr.take(data) };
  const patience = createPatience(sandbox);
  for (; sandbox.paused; patience.spend(lookMs)) await abortable(signal, delay(lookMs));
  signal.throwIfAborted();
  const program = await deps.engine.exec(sandbox.file.containerId, { ...command, ...takers });
  try {
    const { code, ranMs } = await untilEnd(program, sandbox, patience, timeoutSeconds * 1_000, signal);
    await endProcesses(deps, sandbox);
    await Promise.race([program.drained, delay(drainMs)]);
    const end = code === undefined ? ({ kind: 'timed_out' } as const) : ({ kind: 'exited', code } as const);
    return { end, durationMs: ranMs, stdout: stdout.kept(), stderr: stderr.kept(), refusal: undefined };
  } finally {
    program.release();
  }
}

type Patience = ReturnType<typeof createPatience>;

/** How long a run may yet wait for a session that somebody paused. */
function createPatience({ sessionId }: Sandbox) {
  let leftMs = mostPausedMs;
  return {
    spend(ms: number): void {
      leftMs -= ms;
      if (leftMs >= 0) return;
      const message = `session ${sessionId} was paused for more than ${mostPausedMs / 1_000} s while its tests ran in it`;
      throw new DomainError('SESSION_NOT_READY', message);
    },
  };
}

/** While the session stands still no time passes for its tests. */
async function untilEnd(
  program: ContainerExec,
  sandbox: Sandbox,
  patience: Patience,
  timeoutMs: number,
  signal: AbortSignal,
) {
  let ranMs = 0;
  for (let last = performance.now(); ; ) {
    const code = await abortable(signal, program.exitCode());
    const now = performance.now();
    if (sandbox.paused) patience.spend(now - last);
    else if (!sandbox.still) ranMs += now - last;
    last = now;
    if (code !== undefined || ranMs >= timeoutMs) return { code, ranMs };
    // Tests that run are a use of the session.
    sandbox.activeMs = Date.now();
    await abortable(signal, delay(lookMs));
  }
}

/** Ends the grader's processes in a session and takes its files away, wherever they lie; nothing else is touched. */
export async function clearPlace(deps: PlaceDeps, sandbox: Sandbox): Promise<void> {
  try {
    await endProcesses(deps, sandbox);
  } finally {
    const { merged, ids } = await deps.engine.layer(sandbox.file.containerId);
    const owner = toHostId(ids, graderUser.uid);
    if (isOurs(join(merged, graderHome))) await removeTree(join(merged, graderHome));
    await removeFilesOf(owner, merged);
    if (sandbox.pid !== undefined) await removeFilesOf(owner, `/proc/${sandbox.pid}/root/dev/shm`);
  }
}

export function hasLeftovers({ pid }: Sandbox, busy = graderNamespaces()): boolean {
  if (pid === undefined) return false;
  return isOurs(`/proc/${pid}/root${graderHome}`) || busy.has(namespaceOf(pid) ?? '');
}

/** Where the grader has processes. Whoever looks at many sessions asks once. */
export function graderNamespaces(): ReadonlySet<string> {
  return namespacesOfUsers(isGraderOnHost);
}

async function endProcesses({ engine, sandboxes }: PlaceDeps, sandbox: Sandbox): Promise<void> {
  const { project, sessionId, file } = sandbox;
  const pid = sandbox.pid ?? (await engine.pid(file.containerId));
  if (pid === undefined) return;
  const { whileStill } = sandboxes.sealSource(project, sessionId);
  await killUsers(pid, isGraderOnHost, whileStill).catch((error: unknown) => {
    // What is frozen ends when it is thawed.
    if (!sandbox.paused) throw error;
  });
}

/** No image has this user, and no agent can be it. */
function isOurs(path: string): boolean {
  return isGraderOnHost(look(path)?.uid ?? 0);
}

/** Where somebody else could exchange the grader's folder, the worker would write wherever he likes. */
function checkRoot(merged: string): void {
  const root = lstatSync(merged);
  const taken = look(join(merged, graderHome)) !== undefined;
  if (root.uid === 0 && (root.mode & 0o022) === 0 && !taken) return;
  const found = taken ? `has a ${graderHome} of its own` : 'lets others than root write to /';
  throw new DomainError('INTERNAL', `the image ${found}, so no tests can be placed in the session; use another`);
}

function look(path: string): Stats | undefined {
  return lstatSync(path, { throwIfNoEntry: false });
}
