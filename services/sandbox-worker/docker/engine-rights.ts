import { readFileSync } from 'node:fs';
import { saidBy } from './engine-failure.ts';

const sysResource = 1n << 24n;

/**
 * Whether the engine may raise limits. One that itself runs confined, without CAP_SYS_RESOURCE, fails every start that asks
 * for it. Assumed where its process cannot be looked at.
 */
export function mayRaiseLimits(pidFile = '/var/run/docker.pid', proc = '/proc'): boolean {
  try {
    const pid = Number(readFileSync(pidFile, 'utf8').trim());
    const status = readFileSync(`${proc}/${pid}/status`, 'utf8');
    if (!/^Name:\tdockerd$/m.test(status)) return true;
    const effective = /^CapEff:\t([0-9a-f]+)$/m.exec(status)?.[1];
    return effective === undefined || (BigInt(`0x${effective}`) & sysResource) !== 0n;
  } catch {
    return true;
  }
}

/** Whether a start failed for want of that right: runc's words for a refused rlimit. */
export function lacksRightToRaise(error: unknown): boolean {
  return /setting rlimit/.test(saidBy(error));
}
