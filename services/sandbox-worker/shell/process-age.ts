import { readFileSync } from 'node:fs';

/** Clock ticks of a second, which Linux fixes for everybody outside of the kernel. */
const ticksPerSecond = 100;
/** Two clocks are compared, one of which counts in ticks. */
const slackMs = 30;

/** Whether a process of the host was started at this time or later. One that is gone was not. */
export function startedSince(pid: number, timeMs: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The name, in parentheses, may hold anything; what follows are 20 fields up to the time of the start.
    const ticks = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]);
    const uptimeMs = Number(readFileSync('/proc/uptime', 'latin1').split(' ')[0]) * 1000;
    const startedMs = Date.now() - uptimeMs + (ticks * 1000) / ticksPerSecond;
    return startedMs + slackMs >= timeMs;
  } catch {
    return false;
  }
}
