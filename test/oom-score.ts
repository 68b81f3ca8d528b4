import { readFileSync } from 'node:fs';

const sysResource = 1n << 24n;
const effective = /^CapEff:\t([0-9a-f]+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1];

/** Whether the kernel lets this process lower the score of another. */
export const mayLowerOomScore = (BigInt(`0x${effective}`) & sysResource) !== 0n;

export function readOomScore(pid: number | 'self' | undefined): number {
  return Number(readFileSync(`/proc/${pid}/oom_score_adj`, 'utf8'));
}
