import { setTimeout as delay } from 'node:timers/promises';
import type { Client, Session } from '../../../clients/typescript/index.ts';

/** What a project sees of the system, in milliseconds. */
export interface Seen {
  readonly p50: number;
  readonly p99: number;
  readonly create: number;
}

const commands = 600;
/** A command that takes seconds is measured less often. */
const enoughMs = 30_000;
const creates = 11;
/** Between two of beta's commands, and between two of its creates: a client, not a load. */
const paceMs = { command: 5, create: 500 };

const quantile = (values: readonly number[], part: number): number =>
  [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * part))] as number;

async function timed(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

/** Measures `true` and the creating of a session, each one by one. */
export async function measureTenant(client: Client, session: Session): Promise<Seen> {
  const ran: number[] = [];
  const created: number[] = [];
  const began = performance.now();
  while (ran.length < commands && performance.now() - began < enoughMs) {
    ran.push(await timed(() => session.run(['true'])));
    await delay(paceMs.command);
  }
  for (let index = 0; index < creates; index++) {
    let made: Session | undefined;
    created.push(
      await timed(async () => {
        made = await client.sessions.create({});
      }),
    );
    await made?.close();
    await delay(paceMs.create);
  }
  return { p50: quantile(ran, 0.5), p99: quantile(ran, 0.99), create: quantile(created, 0.5) };
}
