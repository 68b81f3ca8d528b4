import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Logger } from '../../shared/log.ts';

/**
 * Numbers that the kernel bounds for the whole host and charges to the memory of whoever uses them. At the kernel's own
 * defaults one session within its limits can use them up for all; at the most that 64-bit Linux takes, its memory limit
 * comes first. systemd sets the first and the second on every machine.
 */
const wanted: Readonly<Record<string, bigint>> = {
  'kernel/pid_max': 4_194_304n,
  'fs/file-max': 9_223_372_036_854_775_807n,
  'kernel/pty/max': 1_048_576n,
};

/** Raises what is lower. What cannot be raised is told with what to type. */
export function raiseHostLimits(log: Logger, directory = '/proc/sys'): void {
  for (const [name, most] of Object.entries(wanted)) {
    const setting = name.replaceAll('/', '.');
    try {
      const found = BigInt(readFileSync(join(directory, name), 'utf8').trim());
      if (found >= most) continue;
      writeFileSync(join(directory, name), String(most));
      log.info({ setting, from: String(found), to: String(most) }, 'raised a limit of the host');
    } catch (error) {
      log.warn({ err: error }, `a limit of the host cannot be raised; type: sysctl -w ${setting}=${most}`);
    }
  }
}
