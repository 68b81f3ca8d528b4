import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants, setPriority } from 'node:os';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { inject } from 'vitest';
import type { GreedyCount } from './greedy-process.ts';

const script = fileURLToPath(new URL('./greedy-process.ts', import.meta.url));

/** A project that does one greedy thing from a process of its own. */
export interface GreedyNeighbour {
  /** Resolves when the first step has ended, or all are under way. */
  begin(): Promise<void>;
  /** Ends the process, the first time. Resolves with what it did. */
  stop(): Promise<GreedyCount>;
}

/** Resolves when all is prepared and nothing is asked for yet. */
export async function startGreedyNeighbour(row: string, endpoint: string, key: string): Promise<GreedyNeighbour> {
  const child = spawn(inject('setup').nodePath, [script, row, endpoint, key], { stdio: ['pipe', 'pipe', 'inherit'] });
  // Clients are on machines of their own. Here they must not take the cores of the services, whose sharing is measured.
  setPriority(child.pid as number, constants.priority.PRIORITY_BELOW_NORMAL);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const heard = async (expected?: string): Promise<string> => {
    const { value, done } = await lines.next();
    if (done || (expected !== undefined && value !== expected))
      throw new Error(`the greedy process of "${row}" said ${done ? 'nothing' : value} where ${expected} was expected`);
    return value as string;
  };
  let stopped: Promise<GreedyCount> | undefined;
  async function stop(): Promise<GreedyCount> {
    const ended = once(child, 'close');
    setPriority(child.pid as number, constants.priority.PRIORITY_NORMAL);
    child.stdin.end();
    const count = JSON.parse(await heard()) as GreedyCount;
    await ended;
    return count;
  }
  await heard('ready');
  return {
    async begin() {
      child.stdin.write('begin\n');
      await heard('going');
    },
    stop() {
      stopped ??= stop();
      return stopped;
    },
  };
}
