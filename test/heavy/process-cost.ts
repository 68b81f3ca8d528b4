import { readdirSync, readFileSync } from 'node:fs';

/** What a process takes of its machine, from /proc. */
export interface ProcessCost {
  readonly residentKib: number;
  /** Its own part of what it has resident, shared pages divided among those that share them. */
  readonly proportionalKib: number;
  readonly descriptors: number;
  readonly threads: number;
  /** Time it has run so far, in clock ticks of 10 ms. */
  readonly ticks: number;
  /** How often it went to sleep by itself: a process that waits for one event does not move it. */
  readonly sleeps: number;
}

export function processCost(pid: number): ProcessCost {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const field = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1]);
  const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // The name stands in brackets and may hold anything; user and system time are the 12th and 13th field after it.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return {
    residentKib: field('VmRSS'),
    proportionalKib: Number(/^Pss:\s+(\d+)/m.exec(rollup)?.[1]),
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
    threads: field('Threads'),
    ticks: Number(fields[11]) + Number(fields[12]),
    sleeps: field('voluntary_ctxt_switches'),
  };
}

/** The process and all that descend from it. */
export function family(pid: number): number[] {
  const children = readdirSync(`/proc/${pid}/task`).flatMap((task) =>
    readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number),
  );
  return [pid, ...children.flatMap(family)];
}

/** The sum of several costs. */
export function sumOf(costs: readonly ProcessCost[]): ProcessCost {
  const sum = (of: (cost: ProcessCost) => number) => costs.reduce((total, cost) => total + of(cost), 0);
  return {
    residentKib: sum((cost) => cost.residentKib),
    proportionalKib: sum((cost) => cost.proportionalKib),
    descriptors: sum((cost) => cost.descriptors),
    threads: sum((cost) => cost.threads),
    ticks: sum((cost) => cost.ticks),
    sleeps: sum((cost) => cost.sleeps),
  };
}
