import { sessionUser } from './container-users.ts';

/** The lines of /etc/passwd and /etc/group with the session's user among them. */
export interface UserDatabase {
  readonly passwd: string;
  readonly group: string;
  readonly home: string;
  /** Whether anything had to be added. */
  readonly changed: boolean;
}

const newHome = `/home/${sessionUser.name}`;

/** The home of uid 1000, undefined where no usable entry names it. */
export function findHome(passwd: string): string | undefined {
  for (const line of passwd.split('\n')) {
    const fields = line.split(':');
    if (fields.length < 7 || fields[2] !== String(sessionUser.uid)) continue;
    const home = fields[5] ?? '';
    return isPlainPath(home) ? home : undefined;
  }
  return undefined;
}

/** The names of uid 1000. */
export function findNames(passwd: string): string[] {
  const entries = passwd.split('\n').map((line) => line.split(':'));
  return entries.flatMap(([name = '', , uid]) => (uid === String(sessionUser.uid) ? [name] : []));
}

/** Takes the user that has uid 1000, whatever its name, or adds `agent`. */
export function withSessionUser(passwd: string, group: string): UserDatabase {
  const { uid, gid, name } = sessionUser;
  const existing = findHome(passwd);
  const groupKnown = group.split('\n').some((line) => line.split(':')[2] === String(gid));
  const groupAfter = groupKnown ? group : append(group, `${freeName(group, name)}:x:${gid}:`);
  if (existing !== undefined) return { passwd, group: groupAfter, home: existing, changed: !groupKnown };
  // An entry of uid 1000 without a usable home would win over ours, being earlier in the file.
  const kept = passwd.split('\n').filter((line) => line.split(':')[2] !== String(uid));
  const entry = `${freeName(kept.join('\n'), name)}:x:${uid}:${gid}::${newHome}:/bin/sh`;
  return { passwd: append(kept.join('\n'), entry), group: groupAfter, home: newHome, changed: true };
}

/** A name that another uid has already gets a suffix. */
function freeName(database: string, name: string): string {
  const taken = new Set(database.split('\n').map((line) => line.split(':')[0]));
  let candidate = name;
  for (let suffix = 2; taken.has(candidate); suffix += 1) candidate = `${name}${suffix}`;
  return candidate;
}

function append(text: string, line: string): string {
  return `${text}${text === '' || text.endsWith('\n') ? '' : '\n'}${line}\n`;
}

/** Absolute, not the root itself, and nothing a tar reader or a shell would take for something else. */
function isPlainPath(path: string): boolean {
  return /^\/[\w.@+-]+(\/[\w.@+-]+)*\/?$/.test(path) && !path.split('/').includes('..') && path.length <= 255;
}
