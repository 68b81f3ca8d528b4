import { setImmediate as turn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { NestCgroup } from '../../../services/sandbox-worker/cgroup/execution-cgroup.ts';
import { createNests, type Nests } from '../../../services/sandbox-worker/execution/nests.ts';
import { createFailureBoundary } from '../../../services/sandbox-worker/failure-boundary.ts';
import { nest, prepare, unnest } from '../../../services/sandbox-worker/guest/frame.ts';

/** A cgroup of which the test says what became of it. */
interface Stand {
  takes: boolean;
  /** What placing a process in it ends in. */
  fails?: Error;
  clean: boolean;
  busy: boolean;
  abandoned: boolean;
}

let stands: Stand[];
let sent: Buffer[];
let freed: NestCgroup[];
let nests: Nests;
let failures: unknown[];

function cgroup(stand: Stand): NestCgroup {
  return {
    place: async () => {
      if (stand.fails !== undefined) throw stand.fails;
      return stand.takes;
    },
    renew: () => stand.clean && !stand.busy,
    populated: () => stand.busy,
    abandon: () => {
      stand.abandoned = true;
    },
    kill: () => 0,
    usage: () => undefined,
    resetPeak() {},
    release() {},
    pids: () => [],
    remove: async () => true,
  };
}

const wasSent = (frame: Buffer): boolean => sent.some((each) => each.equals(frame));

beforeEach(() => {
  stands = [];
  sent = [];
  freed = [];
  failures = [];
  const container = {
    lastNest: 4,
    processors: undefined,
    execution: () => cgroup(stands[0] as Stand),
    existing: () => undefined,
    nest: () => {
      const stand = { takes: true, clean: true, busy: false, abandoned: false };
      stands.push(stand);
      return cgroup(stand);
    },
  };
  nests = createNests(
    () => container,
    (frame) => void sent.push(frame),
    (given) => void freed.push(given),
    createFailureBoundary((error) => void failures.push(error)),
  );
});

// What it would still make must not be made in the next test.
afterEach(async () => {
  nests.drop();
  await turn();
});

/** As the guest would: its process, then the one that waits. */
async function settle(number: number): Promise<void> {
  nests.nested(number, 100 + number, 0);
  await turn();
  nests.nested(number, 100 + number, 200 + number);
}

describe('a quiet sandbox', () => {
  beforeEach(async () => {
    nests.make();
    await turn();
  });

  test('keeps two nests, numbered above those of an earlier worker', async () => {
    expect(sent).toEqual([nest(5), nest(6)]);
    expect(nests.take()).toBeUndefined();
    await settle(5);
    expect(wasSent(prepare(5))).toBe(true);
    expect(nests.take()?.number).toBe(5);
    expect(nests.take()).toBeUndefined();
  });

  test('tells its sandbox of a process that could not be placed, and goes on', async () => {
    const failure = new Error('ENODEV');
    Object.assign(stands[0] as Stand, { fails: failure });
    nests.nested(5, 105, 0);
    await turn();
    expect(failures).toEqual([failure]);
    await settle(6);
    expect(nests.take()?.number).toBe(6);
  });

  test('uses a nest again once its execution left nothing behind', async () => {
    await settle(5);
    const taken = nests.take();
    if (taken === undefined) throw new Error('no nest');
    (stands[0] as Stand).busy = true;
    expect(nests.giveBack(taken)).toBe('held');
    (stands[0] as Stand).busy = false;
    expect(nests.giveBack(taken)).toBe('kept');
    expect(nests.take()).toBeUndefined();
    nests.nested(5, 105, 305);
    expect(nests.take()?.number).toBe(5);
  });

  test('gives a nest up whose execution left memory or kills behind, and makes another', async () => {
    await settle(5);
    const taken = nests.take();
    if (taken === undefined) throw new Error('no nest');
    (stands[0] as Stand).clean = false;
    expect(nests.giveBack(taken)).toBe('gone');
    await turn();
    expect(wasSent(unnest(5))).toBe(true);
    expect(wasSent(nest(7))).toBe(true);
  });

  test('gives a nest up that cannot be placed in its cgroup, and frees the cgroup', async () => {
    (stands[0] as Stand).takes = false;
    nests.nested(5, 105, 0);
    await turn();
    expect(wasSent(unnest(5))).toBe(true);
    expect(freed).toHaveLength(1);
  });

  test('gives a nest up that somebody killed, and makes no other before there is need', async () => {
    await settle(5);
    const before = sent.length;
    nests.nested(5, 0, 0);
    await turn();
    expect(sent.slice(before)).toEqual([unnest(5)]);
    expect(nests.take()).toBeUndefined();
    await turn();
    expect(wasSent(nest(7))).toBe(true);
  });

  test('forgets all of them with the connection', async () => {
    await settle(5);
    nests.drop();
    expect(nests.take()).toBeUndefined();
    expect(stands.every((stand) => stand.abandoned)).toBe(true);
    expect(freed).toHaveLength(2);
  });
});
