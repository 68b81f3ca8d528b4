import { randomInt } from 'node:crypto';
import { readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { grader, sessionUser } from './container-users.ts';

/** Host ids that systemd and shadow leave alone. A pair is a container's: the first its session user, the second its grader. */
const firstId = 1_900_000_000;
const pairs = 100_000_000;

const enterWithinMs = 20_000;
const enterEveryMs = 2;

/** What the users of a container are on the host, as user ids and as group ids. Every other id is the same in both. */
export interface HostIds {
  readonly agent: number;
  readonly grader: number;
}

/**
 * Gives each container a pair of its own, at random: a container sees its pair in /proc/self/uid_map, and the next one in order
 * would tell how many were made since. None of the last `notAgain` comes again.
 */
export function createHostIdRange(notAgain = 10_000): () => HostIds {
  const given = new Set<number>();
  return () => {
    let next = randomInt(pairs);
    while (given.has(next)) next = randomInt(pairs);
    given.add(next);
    const [oldest = next] = given;
    if (given.size > notAgain) given.delete(oldest);
    return idsFrom(firstId + 2 * next);
  };
}

/** Of the user that a container was created with; undefined where it has the host's own ids. */
export function hostIdsOf(user: string | undefined): HostIds | undefined {
  const id = Number(user?.split(':')[0]);
  return isPaired(id) && id % 2 === 0 ? idsFrom(id) : undefined;
}

export function toHostId(ids: HostIds | undefined, id: number): number {
  if (id === sessionUser.uid) return ids?.agent ?? id;
  return id === grader.uid ? (ids?.grader ?? id) : id;
}

export function fromHostId(ids: HostIds | undefined, id: number): number {
  if (id === ids?.agent) return sessionUser.uid;
  return id === ids?.grader ? grader.uid : id;
}

/** Whether an id of the host is that of a grader, in whatever container. */
export function isGraderOnHost(id: number): boolean {
  return id === grader.uid || (isPaired(id) && id % 2 === 1);
}

/** Tells the kernel what the ids of a container's user namespace are, once its first process has made the namespace. */
export async function writeIdMaps(pid: number, ids: HostIds): Promise<void> {
  const own = readlinkSync('/proc/self/ns/user');
  const until = performance.now() + enterWithinMs;
  while (readlinkSync(`/proc/${pid}/ns/user`) === own) {
    if (performance.now() > until) throw new Error(`its guest made no user namespace within ${enterWithinMs} ms`);
    await delay(enterEveryMs);
  }
  // The guest waits for the map of users, which is therefore the last.
  for (const name of ['gid_map', 'uid_map']) writeFileSync(`/proc/${pid}/${name}`, mapOf(ids));
}

/** Whether the maps were written. Until then nothing has run in the container. */
export function hasIdMaps(pid: number, ids: HostIds): boolean {
  try {
    return readFileSync(`/proc/${pid}/uid_map`, 'latin1').includes(String(ids.agent));
  } catch {
    return false;
  }
}

/** Whether a guest may make a user namespace here. */
export function mayMakeUserNamespaces(): boolean {
  const setting = (path: string, otherwise: string): string => {
    try {
      return readFileSync(`/proc/sys/${path}`, 'utf8').trim();
    } catch {
      return otherwise;
    }
  };
  return (
    setting('user/max_user_namespaces', '0') !== '0' &&
    setting('kernel/unprivileged_userns_clone', '1') !== '0' &&
    setting('kernel/apparmor_restrict_unprivileged_userns', '0') === '0'
  );
}

function isPaired(id: number): boolean {
  return id >= firstId && id < firstId + 2 * pairs;
}

function idsFrom(agent: number): HostIds {
  return { agent, grader: agent + 1 };
}

/** Lines of: first id inside, first id on the host, how many. */
function mapOf(ids: HostIds): string {
  const [a, g] = [sessionUser.uid, grader.uid];
  const between = a + 1;
  const after = g + 1;
  const lines = [
    [0, 0, a],
    [a, ids.agent, 1],
    [between, between, g - between],
    [g, ids.grader, 1],
    [after, after, firstId - after],
  ];
  return `${lines.map((line) => line.join(' ')).join('\n')}\n`;
}
