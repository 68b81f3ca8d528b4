import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { ownerFile, runDirectory, runId } from './run.ts';

/** What was told to end may take so long to be gone. */
const goneWithinMs = 60_000;
const lookEveryMs = 100;

/** Everything of this run that stays: what is about to end, or belongs to a run that was begun meanwhile, does not. */
export async function leftovers(dockerSocket: string): Promise<string[]> {
  for (const began = performance.now(); ; ) {
    const found = await foundOf(dockerSocket);
    if (found.length === 0 || performance.now() - began > goneWithinMs) return found;
    await new Promise((resolve) => setTimeout(resolve, lookEveryMs));
  }
}

/** Containers, mounts, loop devices, cgroups, directories, processes and networks, at this moment. */
async function foundOf(dockerSocket: string): Promise<string[]> {
  const containers = await listContainers(dockerSocket);
  const directory = runDirectory();
  return [
    ...containers
      .filter(({ Labels, Names }) => {
        const ofImage = Names.some((name) => name.startsWith(`/assay-image-${runId()}`));
        return ofImage || (Labels['dev.assay.installation'] ?? '').startsWith(runId());
      })
      .map(({ Id, State }) => `container ${Id.slice(0, 12)} (${State})`),
    ...mountsBelow(directory).map((place) => `mount ${place}`),
    ...loopFiles()
      .filter((file) => file.startsWith(directory))
      .map((file) => `loop device of ${file}`),
    ...cgroupsWithout(new Set([...containers.map(({ Id }) => Id), ...containersOfOtherRuns(directory)])).map(
      (path) => `cgroup ${path}`,
    ),
    ...readdirSync(directory)
      .filter((name) => name !== ownerFile)
      .map((name) => `directory ${join(directory, name)}`),
    ...processesIn(directory).map((line) => `process ${line}`),
    ...networkLeftovers(`assay-${runId()}`),
  ];
}

/** Mounts that are below the directory, or of something in it; the last comes first. */
export function mountsBelow(directory: string): string[] {
  const lines = readFileSync('/proc/self/mounts', 'utf8').split('\n');
  return lines
    .filter((line) => line.includes(directory))
    .flatMap((line) => line.split(' ')[1] ?? [])
    .reverse();
}

interface Container {
  Id: string;
  State: string;
  Names: string[];
  Labels: Record<string, string>;
}

export function listContainers(socketPath: string): Promise<Container[]> {
  return new Promise((resolve, reject) => {
    request({ socketPath, path: '/containers/json?all=true' }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('end', () => resolve(JSON.parse(Buffer.concat(chunks).toString()) as Container[]));
      response.on('error', reject);
    })
      .on('error', reject)
      .end();
  });
}

function loopFiles(): string[] {
  return readdirSync('/sys/block')
    .filter((name) => name.startsWith('loop'))
    .flatMap((name) => orNone(() => [readFileSync(join('/sys/block', name, 'loop/backing_file'), 'utf8').trim()]));
}

/** Execution cgroups whose container is gone, in every hierarchy. */
function cgroupsWithout(containers: ReadonlySet<string>): string[] {
  const roots = ['', 'memory', 'freezer', 'cpuacct'].map((name) => join('/sys/fs/cgroup', name, 'docker'));
  return roots.flatMap((root) =>
    orNone(() => readdirSync(root))
      .filter((id) => /^[0-9a-f]{64}$/.test(id) && !containers.has(id))
      .map((id) => join(root, id))
      .filter((path) => orNone(() => readdirSync(path)).some((name) => name.startsWith('assay-'))),
  );
}

/** Nothing where it went away in the moment in which it was looked at. */
function orNone(look: () => string[]): string[] {
  try {
    return look();
  } catch {
    return [];
  }
}

/** Containers of the engines that other runs have started for themselves, by the processes that hold them. */
function containersOfOtherRuns(directory: string): string[] {
  const shims = processes().filter((line) => /containerd-shim.*\/assay-t[0-9a-f]{10}\//.test(line));
  return shims
    .filter((line) => !line.includes(directory))
    .flatMap((line) => / -id ([0-9a-f]{64}) /.exec(line)?.[1] ?? []);
}

/** Processes whose command line names this run's directory. */
function processesIn(directory: string): string[] {
  return processes().filter((line) => line.includes(directory));
}

/** All but this one, each with its command line. */
function processes(): string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .map((pid) => {
      try {
        return `${pid} ${readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')}`;
      } catch {
        return '';
      }
    });
}

/** Interfaces, network namespaces and packet rules that carry this run's name. */
function networkLeftovers(name: string): string[] {
  const { links, namespaces } = networksOf(name);
  const rules = ['iptables-save', 'ip6tables-save'].flatMap((program) => linesOf(program));
  return [
    ...links.map((link) => `interface ${link}`),
    ...namespaces.map((found) => `network namespace ${found}`),
    ...rules.filter((line) => line.includes(name)).map((line) => `packet rule ${line}`),
  ];
}

/** Interfaces and network namespaces whose names begin so. */
export function networksOf(name: string): { readonly links: string[]; readonly namespaces: string[] } {
  const namespaces = orNone(() => readdirSync('/run/netns'));
  return {
    links: readdirSync('/sys/class/net').filter((link) => aliasOf(link).startsWith(name)),
    namespaces: namespaces.filter((found) => found.startsWith(name)),
  };
}

function aliasOf(link: string): string {
  try {
    return readFileSync(`/sys/class/net/${link}/ifalias`, 'utf8');
  } catch {
    return '';
  }
}

/** Nothing where the program is missing, or not for this user: then there are no rules of ours either. */
function linesOf(program: string): string[] {
  try {
    return execFileSync(program, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).split('\n');
  } catch {
    return [];
  }
}
