import { readFileSync } from 'node:fs';
import { identify, isSame } from '../setup/process-table.mjs';

const lookEveryMs = 500;
const shells = new Set(['sh', 'dash', 'bash', 'ash', 'busybox']);

/**
 * Calls back once when the npm that runs this script has ended. A TERM that is sent to npm alone ends npm, which passes it
 * to nobody, and would leave all that it started running.
 */
export function onNpmEnd(listener) {
  const parents = npmParents();
  const timer = setInterval(() => {
    if (parents.every(isSame)) return;
    clearInterval(timer);
    listener();
  }, lookEveryMs);
  timer.unref();
}

/** The processes of the npm that runs this script; none if it was started by hand: it may outlive the shell that it came from. */
export function npmParents() {
  return process.env.npm_lifecycle_event ? findParents(process.ppid) : [];
}

/** The parent, and where that is the shell of an npm script, npm itself. */
function findParents(pid) {
  const parent = identify(pid);
  if (!parent) return [];
  const above = shells.has(parent.name) ? identify(parentOf(pid)) : undefined;
  return above ? [parent, above] : [parent];
}

function parentOf(pid) {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
}
