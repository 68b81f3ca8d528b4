import type { ExecutionCgroup } from '../cgroup/execution-cgroup.ts';

const sigkill = 9;
const lookMs = 20;
/** A process that waits in the kernel outlives its kill for a while; the container's end takes what is left. */
const looks = 250;

/** Kills what is left in the cgroup of a closed shell and removes it; calls back when nothing of it runs any more. */
export function clearCgroup(cgroup: ExecutionCgroup | undefined, cleared: () => void, look = 0): void {
  if (cgroup === undefined) {
    cleared();
    return;
  }
  if (cgroup.populated() && look < looks) {
    cgroup.kill(sigkill);
    setTimeout(() => clearCgroup(cgroup, cleared, look + 1), lookMs).unref();
    return;
  }
  const done = (): void => {
    cgroup.release();
    cleared();
  };
  cgroup.remove().then(done, done);
}
