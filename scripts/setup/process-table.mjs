import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** A process by its id and the moment it began: an id alone may have been given to another process since. */
export function identify(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const name = stat.slice(stat.indexOf('(') + 1, stat.lastIndexOf(')'));
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' ? undefined : { pid, name, startTime: fields[19] };
  } catch {
    return undefined;
  }
}

export function isSame(identity) {
  return identity !== undefined && identify(identity.pid)?.startTime === identity.startTime;
}

/** Every process whose name and command line the predicate accepts. */
export function findProcesses(accepts) {
  const found = [];
  for (const entry of readdirSync('/proc')) {
    if (!/^\d+$/.test(entry)) continue;
    const identity = identify(Number(entry));
    if (identity && accepts(identity.name, commandLine(entry))) found.push(identity);
  }
  return found;
}

function commandLine(pid) {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
  } catch {
    return [];
  }
}

/** Lowers the oom_score_adj of a process, where the kernel permits that: it takes CAP_SYS_RESOURCE. */
export function lowerOomScore(pid, score) {
  const file = `/proc/${pid}/oom_score_adj`;
  try {
    if (Number(readFileSync(file, 'utf8')) > score) writeFileSync(file, String(score));
  } catch {
    // Refused, or the process has ended.
  }
}

/** Sends the signal and waits for the end of the process; KILL when `graceMs` did not do. */
export async function endProcess(identity, graceMs, signal = 'SIGTERM') {
  for (const [sent, ms] of [
    [signal, graceMs],
    ['SIGKILL', 5000],
  ]) {
    if (!isSame(identity)) return true;
    try {
      process.kill(identity.pid, sent);
    } catch {
      return !isSame(identity);
    }
    if (await goneWithin(identity, ms)) return true;
  }
  return !isSame(identity);
}

async function goneWithin(identity, ms) {
  const end = Date.now() + ms;
  while (isSame(identity)) {
    if (Date.now() > end) return false;
    await sleep(50);
  }
  return true;
}
