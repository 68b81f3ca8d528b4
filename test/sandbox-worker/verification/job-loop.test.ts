import { create, toBinary } from '@bufbuild/protobuf';
import { afterEach, expect, test } from 'vitest';
import { VerificationJobSchema } from '../../../gen/assay/internal/v1/records_pb.js';
import { type JobLoop, startJobLoop } from '../../../services/sandbox-worker/verification/job-loop.ts';
import { createLog } from '../../../services/shared/log.ts';
import type { JobDelivery, JobSource } from '../../../services/shared/store/job-queue.ts';

let loop: JobLoop | undefined;
let release = (): void => {};
afterEach(async () => {
  release();
  await loop?.stop();
});

/** A loop over queues in memory, whose jobs end when they are told to. Jobs are named `<project>-<number>`. */
function start(queues: Record<string, string[]>, settings: { slots: number; sharePercent?: number }) {
  const running = new Map<string, () => void>();
  const heard = new Set<(project: string) => void>();
  const begun: string[] = [];
  let takes = 0;
  let released = false;
  const deliveryOf = (name: string, back: () => void): JobDelivery => ({
    sequence: 1n,
    data: toBinary(
      VerificationJobSchema,
      create(VerificationJobSchema, { project: name.split('-')[0] ?? '', verificationId: name }),
    ),
    ack: async () => {},
    nak: back,
    working() {},
    term() {},
  });
  const jobs: JobSource = {
    projects: async () => Object.keys(queues).filter((name) => queues[name]?.length),
    async take(queue) {
      takes += 1;
      const name = queues[queue]?.shift();
      // What was given back comes again with the next look.
      return name === undefined ? undefined : deliveryOf(name, () => setImmediate(() => queues[queue]?.push(name)));
    },
    has: async () => true,
    onJob(listener) {
      heard.add(listener);
      return () => heard.delete(listener);
    },
  };
  const handler = {
    handle({ data }: JobDelivery) {
      const name =
        Buffer.from(data)
          .toString()
          .match(/\w+-\d+/)?.[0] ?? '';
      begun.push(name);
      if (released) return Promise.resolve();
      const { promise, resolve } = Promise.withResolvers<void>();
      running.set(name, resolve);
      return promise.finally(() => running.delete(name));
    },
    stop() {},
  };
  release = () => {
    released = true;
    for (const end of running.values()) end();
  };
  loop = startJobLoop({
    jobs,
    handler,
    sharePercent: 75,
    ...settings,
    log: createLog('test', 'silent'),
    lookEveryMs: 5,
  });
  return {
    begun,
    running: () => [...running.keys()].sort(),
    end: (name: string) => running.get(name)?.(),
    put(queue: string, name: string) {
      queues[queue] = [...(queues[queue] ?? []), name];
      for (const listener of heard) listener(queue);
    },
    /** Resolves when the queues have been looked at a few times more. */
    async looks() {
      const until = takes;
      let looked = 0;
      const { projects } = jobs;
      Object.assign(jobs, {
        projects: () => {
          looked += 1;
          return projects();
        },
      });
      await expect.poll(() => looked).toBeGreaterThan(3);
      return takes - until;
    },
  };
}

const four = (project: string) => [1, 2, 3, 4].map((number) => `${project}-${number}`);

test('a project whose gradings do not end leaves a slot to another', async () => {
  const { running, put, looks } = start({ a: four('a') }, { slots: 4 });
  await expect.poll(running).toEqual(['a-1', 'a-2', 'a-3']);
  await looks();
  expect(running()).toEqual(['a-1', 'a-2', 'a-3']);
  put('b', 'b-1');
  await expect.poll(running).toEqual(['a-1', 'a-2', 'a-3', 'b-1']);
});

test('a project at its share goes on when one of its own gradings ends', async () => {
  const { running, end } = start({ a: four('a') }, { slots: 2 });
  await expect.poll(running).toEqual(['a-1']);
  end('a-1');
  await expect.poll(running).toEqual(['a-2']);
});

test('a project at its share is not asked for jobs, however often the queue is looked at', async () => {
  const { running, looks } = start({ a: four('a') }, { slots: 2 });
  await expect.poll(running).toEqual(['a-1']);
  expect(await looks()).toBe(0);
});

test('a single slot is for whoever comes first', async () => {
  const { begun, running, end } = start({ a: four('a') }, { slots: 1 });
  await expect.poll(running).toEqual(['a-1']);
  end('a-1');
  await expect.poll(() => begun).toEqual(['a-1', 'a-2']);
});

test('a share of 100 percent reserves nothing', async () => {
  const { running } = start({ a: four('a') }, { slots: 4, sharePercent: 100 });
  await expect.poll(running).toEqual(four('a'));
});

test('gradings in sessions of this worker count for their project, and those of another pass them by', async () => {
  const { running } = start({ a: four('a'), worker_x: [...four('a').map((name) => `${name}0`), 'b-1'] }, { slots: 4 });
  await expect.poll(() => running().includes('b-1')).toBe(true);
  expect(running().filter((name) => name.startsWith('a'))).toHaveLength(3);
});
