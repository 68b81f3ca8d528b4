import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Scope } from '../../gen/assay/v1/key_pb.js';
import { LimitsSchema } from '../../gen/assay/v1/server_pb.js';
import { type NatsProcess, startNats } from '../shared/store/nats-process.ts';
import { reasonOf } from './reason.ts';
import { clientsOf, type RunningService, runService } from './running-service.ts';
import type { WorkerDouble } from './worker-double.ts';

let nats: NatsProcess;
let service: RunningService;
let worker: WorkerDouble;
beforeAll(async () => {
  nats = await startNats();
  service = await runService({
    nats,
    env: {
      ASSAY_LIMIT_STREAMS_PER_KEY: '2',
      ASSAY_LIMIT_STREAMS_PER_PROJECT: '3',
      ASSAY_LIMIT_UNFINISHED_BYTES_PER_KEY: '65536',
      ASSAY_LIMIT_UNFINISHED_BYTES_PER_PROJECT: '100000',
    },
  });
  worker = await service.addWorker({ heartbeatMs: 1_000 });
});
afterAll(async () => {
  await service?.stop();
  await nats?.stop();
});

/** Clients of a service with so many keys of one project. */
async function tenant(of: RunningService, project: string, count: number) {
  const keys = await Promise.all(Array.from({ length: count }, () => service.makeKey(Scope.AGENT, project)));
  const clients = keys.map(({ secret }) => clientsOf(of.transport(secret)));
  return clients as [(typeof clients)[number], ...typeof clients];
}

test('the limits in force are all told, those of projects and sessions too', async () => {
  const [client] = await tenant(service, 'asks', 1);
  const { limits } = await client.server.getServerInfo({});
  expect(limits).toMatchObject({
    ...{ streamsPerKey: 2, streamsPerProject: 3 },
    ...{ unfinishedBytesPerKey: 65_536n, unfinishedBytesPerProject: 100_000n },
    session: { cpus: 64, memoryBytes: 2n ** 40n, diskBytes: 2n ** 40n, pids: 65_536 },
  });
  const untold = LimitsSchema.fields.filter(({ localName }) => !limits?.[localName as keyof typeof limits]);
  expect(untold.map(({ name }) => name)).toEqual([]);
});

describe('a project with many keys', () => {
  test('makes no more requests in a second than it may, and others do', async () => {
    // So few that a slow machine, too, makes more calls in a second.
    const strict = await runService({ nats, env: { ASSAY_LIMIT_REQUESTS_PER_SECOND_PER_PROJECT: '2' } });
    const many = await tenant(strict, 'many-keys', 3);
    const [other] = await tenant(strict, 'another', 1);
    const list = (client: (typeof many)[number]) =>
      client.sessions.listSessions({}).then(
        () => 'ok',
        (error) => `${reasonOf(error)} ${error.rawMessage}`,
      );
    const answers = await Promise.all(Array.from({ length: 60 }, (_, at) => list(many[at % 3] ?? many[0])));
    expect(answers).toContain('ok');
    expect(answers.join()).toMatch(
      /RATE_LIMITED over the limit of 2 requests .* \(ASSAY_LIMIT_REQUESTS_PER_SECOND_PER_PROJECT\)/,
    );
    expect(await list(other)).toBe('ok');
    await strict.stop();
  });

  test('has no more streams open than it may, and gets a place back with each that it closes', async () => {
    worker.execute = (_request, stream) => stream.event({ case: 'heartbeat', value: {} as never });
    const [first, second, third] = await tenant(service, 'streaming', 3);
    const sessionId = (await first.sessions.createSession({})).session?.sessionId ?? '';
    const open = async (client: typeof first) => {
      const leaving = new AbortController();
      const program = { case: 'command', value: 'true' } as const;
      const events = client.executions.execute({ sessionId, program }, { signal: leaving.signal });
      await events[Symbol.asyncIterator]().next();
      return leaving;
    };
    const opened = [await open(first), await open(first), await open(second ?? first)];
    const refusal = await open(third ?? first).catch((error) => error);
    expect(reasonOf(refusal)).toBe('STREAM_QUOTA');
    expect(refusal.rawMessage).toContain('the project has 3 open streams, the limit (ASSAY_LIMIT_STREAMS_PER_PROJECT)');
    // Its own limit comes first, so that a caller knows what to do.
    expect(String(await open(first).catch((error) => error))).toContain('ASSAY_LIMIT_STREAMS_PER_KEY');
    opened[0]?.abort();
    await expect.poll(() => open(third ?? first).then(Boolean, () => false)).toBe(true);
    for (const leaving of opened) leaving.abort();
  });

  test('holds no more of unfinished requests than it may', async () => {
    const held = Promise.withResolvers<void>();
    const came = Promise.withResolvers<void>();
    let heard = 0;
    worker.calls.writeInput = async () => {
      if (++heard === 2) came.resolve();
      await held.promise;
      return { nextOffset: 1n };
    };
    const [first, second, third] = await tenant(service, 'writing', 3);
    const sessionId = (await first.sessions.createSession({})).session?.sessionId ?? '';
    const write = (client = first) =>
      client.executions.writeInput({ sessionId, executionId: 'x', data: Buffer.alloc(40_000) });
    const waiting = [write(first), write(second)];
    await came.promise;
    const refusal = await write(third).catch((error) => error);
    expect(reasonOf(refusal)).toBe('REQUEST_QUOTA');
    expect(refusal.rawMessage).toContain('ASSAY_LIMIT_UNFINISHED_BYTES_PER_PROJECT');
    held.resolve();
    await Promise.all(waiting);
    await expect.poll(() => write(third).then(Boolean, () => false)).toBe(true);
  });
});
