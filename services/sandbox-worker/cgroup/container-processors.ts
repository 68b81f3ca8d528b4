import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { readField, readNumber, writeControl } from './control-file.ts';

/** What a container uses of the host's processors, and how much it weighs against other containers there. */
export interface ContainerProcessors {
  /** CPU time so far; 0 once the container is gone. */
  usedMicros(): number;
  /** Gives it this part, up to 1, of the weight that the engine gives to a container. */
  weigh(part: number): void;
}

/** The kernel's default, which the engine leaves as it is, and the least that it takes. */
const v1Shares = { usual: 1_024, least: 2 };
const v2Weight = { usual: 100, least: 1 };

/** Undefined where the host does not share processors by cgroup. */
export function v1Processors(cpu: string, cpuacct: string): ContainerProcessors | undefined {
  const shares = join(cpu, 'cpu.shares');
  if (!existsSync(shares)) return undefined;
  return {
    usedMicros: () => readNumber(join(cpuacct, 'cpuacct.usage')) / 1_000,
    weigh: (part) => void writeControl(shares, weightOf(part, v1Shares)),
  };
}

/** Undefined where the host does not share processors by cgroup. */
export function v2Processors(directory: string): ContainerProcessors | undefined {
  const weight = join(directory, 'cpu.weight');
  if (!existsSync(weight)) return undefined;
  return {
    usedMicros: () => readField(join(directory, 'cpu.stat'), 'usage_usec'),
    weigh: (part) => void writeControl(weight, weightOf(part, v2Weight)),
  };
}

function weightOf(part: number, { usual, least }: typeof v1Shares): string {
  return String(Math.max(least, Math.round(usual * part)));
}
