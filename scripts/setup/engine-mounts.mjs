import { readFileSync, realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { run } from './program.mjs';

/** Every mount point of this machine as often as something is mounted there, in the order of mounting. */
export function mountPoints() {
  const lines = readFileSync('/proc/self/mountinfo', 'utf8').trim().split('\n');
  // The kernel writes spaces and the like as \040.
  const unescaped = (text) => text.replace(/\\(\d{3})/g, (_, code) => String.fromCharCode(Number.parseInt(code, 8)));
  return lines.map((line) => unescaped(line.split(' ')[4]));
}

export function countMounts(points, directory) {
  return points.filter((point) => point === directory).length;
}

/**
 * Unmounts what an engine that has ended left behind: file systems of its containers, its network namespaces, and with
 * live-restore its root directory, which it mounts over itself at its first start and no later one unmounts. What was
 * mounted before that start stays. Resolves to what could not be unmounted.
 */
export async function unmountLeftovers({ root, rootMounts, containerdState }) {
  const state = real(dirname(containerdState));
  const ofEngine = [state, join(root, 'overlay2'), join(root, 'containers')].map((directory) => `${directory}/`);
  const points = mountPoints();
  const left = points.filter((point) => ofEngine.some((prefix) => point.startsWith(prefix))).reverse();
  const over = Math.max(0, countMounts(points, root) - rootMounts);
  const kept = [];
  for (const point of [...left, ...Array(over).fill(root)]) {
    await run('umount', [point]).catch(() => kept.push(point));
  }
  return kept;
}

/** As the mount table has it. */
function real(directory) {
  try {
    return realpathSync(directory);
  } catch {
    return directory;
  }
}
