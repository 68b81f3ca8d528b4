import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { basename, join } from 'node:path';
import { endProcess, findProcesses, identify, isSame } from '../scripts/setup/process-table.mjs';
import { createRuleKeeper } from '../services/sandbox-worker/network/full/rule-keeper.ts';
import { listContainers, mountsBelow, networksOf } from './leftovers.ts';
import { ownerFile } from './run.ts';

interface Owner {
  readonly pid: number;
  readonly startTime: string;
  /** Changes with every start of the machine, and with it the ticks of all processes. */
  readonly boot: string;
}

const boot = (): string => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();

/** Says that the run in this directory is the process's. */
export function own(directory: string, pid = process.pid): void {
  const { startTime = '' } = identify(pid) ?? {};
  writeFileSync(join(directory, ownerFile), JSON.stringify({ pid, startTime, boot: boot() } satisfies Owner));
}

/** Removes what runs have left whose process was killed from outside. A run without an owner may be about to have one. */
export async function sweepDeadRuns(parent: string, dockerSocket: string): Promise<string[]> {
  const directories = readdirSync(parent)
    .filter((name) => /^assay-t[0-9a-f]{10}$/.test(name))
    .map((name) => join(parent, name))
    .filter(isDead);
  const swept: string[] = [];
  for (const directory of directories) {
    try {
      await sweep(directory, dockerSocket);
      swept.push(directory);
    } catch (error) {
      // What cannot be removed is in nobody's way: every run has a directory of its own.
      console.warn(`what a run that was killed has left in ${directory} cannot all be removed: ${error}`);
    }
  }
  return swept;
}

function isDead(directory: string): boolean {
  try {
    const owner = JSON.parse(readFileSync(join(directory, ownerFile), 'utf8')) as Owner;
    return owner.boot !== boot() || !isSame(owner);
  } catch {
    return false;
  }
}

/** Processes first, so that nothing is made behind our back; the directory last, so that it is found again otherwise. */
async function sweep(directory: string, dockerSocket: string): Promise<void> {
  for (const found of processesOf(directory)) await endProcess(found, 5_000);
  const run = basename(directory).replace('assay-', '');
  for (const { Id, Labels } of await listContainers(dockerSocket)) {
    if (Labels['dev.assay.installation']?.startsWith(`${run}-`)) await removeContainer(dockerSocket, Id);
  }
  for (const mount of mountsBelow(directory)) quietly('umount', mount);
  for (const installation of installationsIn(directory)) await removeRules(installation);
  const { namespaces, links } = networksOf(`assay-${run}`);
  for (const name of namespaces) quietly('ip', 'netns', 'del', name);
  for (const name of links) quietly('ip', 'link', 'del', name);
  rmSync(directory, { recursive: true, force: true, maxRetries: 3 });
}

/** Those that name the directory, stand in it, or have their root in it: of a container whose engine is gone. */
function processesOf(directory: string) {
  const named = findProcesses((_, line) => line.some((word) => word.includes(directory)));
  const standing = readdirSync('/proc').filter((pid) => /^\d+$/.test(pid) && standsIn(pid, directory));
  const all = [...named, ...standing.flatMap((pid) => identify(Number(pid)) ?? [])];
  return [...new Map(all.map((each) => [each.pid, each])).values()].filter(({ pid }) => pid !== process.pid);
}

function standsIn(pid: string, directory: string): boolean {
  try {
    if (`${readlinkSync(`/proc/${pid}/cwd`)}/`.startsWith(`${directory}/`)) return true;
    // The first mount of a container is its root, and the layers are named there.
    return (
      /^.* \/ \/ .*$/m.exec(readFileSync(`/proc/${pid}/mountinfo`, 'latin1'))?.[0].includes(`${directory}/`) ?? false
    );
  } catch {
    return false;
  }
}

function installationsIn(directory: string): string[] {
  try {
    const files = readdirSync(directory).map((name) => join(directory, name, 'installation'));
    return files.filter((file) => existsSync(file)).map((file) => readFileSync(file, 'utf8').trim());
  } catch {
    // Another run that sweeps at the same time was quicker.
    return [];
  }
}

/** Removal looks at nothing but the name. */
async function removeRules(installation: string): Promise<void> {
  const anything = { family: 'ipv4', address: '0.0.0.0', prefix: 32 } as const;
  const keeper = createRuleKeeper({ installation, sessions: anything, closed: [], nameServers: [], blocked: [] });
  // Without the tables, or the right to them, there are no rules of ours either.
  await keeper.remove().catch(() => {});
}

function quietly(program: string, ...args: string[]): void {
  try {
    execFileSync(program, args, { stdio: 'ignore' });
  } catch {
    // Another run that sweeps at the same time was quicker.
  }
}

function removeContainer(socketPath: string, id: string): Promise<void> {
  return new Promise((resolve, reject) => {
    request({ socketPath, method: 'DELETE', path: `/containers/${id}?force=true&v=true` }, (response) =>
      response.on('end', resolve).resume(),
    )
      .on('error', reject)
      .end();
  });
}
