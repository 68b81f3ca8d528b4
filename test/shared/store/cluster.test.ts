import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { SessionRecordSchema } from '../../../gen/assay/internal/v1/records_pb.js';
import { SessionState } from '../../../gen/assay/v1/session_pb.js';
import { type Broker, connectBroker } from '../../../services/shared/store/broker.ts';
import { createNatsJobQueue, createNatsJobSource } from '../../../services/shared/store/nats-job-queue.ts';
import { createNatsSessionStore } from '../../../services/shared/store/nats-session-store.ts';
import { clusterPorts, startNode } from './nats-cluster.ts';
import type { NatsProcess } from './nats-process.ts';

const nodes: NatsProcess[] = [];
const said: string[] = [];
let broker: Broker;

beforeAll(async () => {
  const ports = await clusterPorts(3);
  const first = await startNode(ports, 0);
  nodes.push(first);
  const { url, user, password } = first;
  const options = { url, user, password, name: 'test', replicas: 3 };
  // One node of three has no leader, so that JetStream answers that it is temporarily unavailable.
  const waiting = Promise.withResolvers<void>();
  const onWaiting = (message: string): void => {
    said.push(message);
    waiting.resolve();
  };
  const connecting = connectBroker({ ...options, onWaiting });
  await Promise.race([connecting, waiting.promise]);
  nodes.push(await startNode(ports, 1), await startNode(ports, 2));
  broker = await connecting;
});
afterAll(async () => {
  await broker?.close();
  for (const node of nodes) await node.stop();
});

test('a service that starts before its cluster has a leader waits and says why', () => {
  expect(said[0]).toMatch(/^the broker at 127\.0\.0\.1:\d+ is not ready \(.+\); retry in 250 ms$/);
});

test('no call fails while the leaders of the streams change, and no write is lost or doubled', async () => {
  const lost: unknown[] = [];
  const store = createNatsSessionStore({ broker, onEventLost: (error) => lost.push(error) });
  const jobs = createNatsJobQueue(broker);
  const source = createNatsJobSource({ broker, ackWaitMs: 30_000, workerId: 'wrk-a' });
  let going = true;
  const count = async (id: string): Promise<number> => {
    await store.create(
      create(SessionRecordSchema, { project: 'p', session: { sessionId: id, state: SessionState.READY } }),
    );
    let written = 0;
    while (going) {
      await store.update('p', id, (record) => {
        const { session } = record;
        expect(session?.labels.n ?? '0').toBe(String(written));
        return session && { ...record, session: { ...session, labels: { n: String(written + 1) } } };
      });
      written += 1;
    }
    return written;
  };
  const work = async (): Promise<number> => {
    let done = 0;
    for (; going; done += 1) {
      await jobs.publish('p', `ver_${done}`);
      const job = await source.take('p');
      if (job !== undefined) await job.ack();
    }
    return done;
  };
  const ids = ['a', 'b', 'c', 'd'];
  const counting = Promise.all(ids.map(count));
  const working = work();
  const { streams } = await broker.js.jetstreamManager(false);
  for (let change = 0; change < 4; change += 1) {
    for (const stream of ['KV_assay_sessions', 'ASSAY_EVENTS', 'ASSAY_JOBS']) {
      await broker.connection.request(`$JS.API.STREAM.LEADER.STEPDOWN.${stream}`, '', { timeout: 5_000 });
      await expect.poll(async () => (await streams.info(stream).catch(() => undefined))?.cluster?.leader).toBeTruthy();
    }
  }
  going = false;
  const written = await counting;
  expect(await working).toBeGreaterThan(0);
  for (const [index, id] of ids.entries()) {
    expect((await store.get('p', id))?.value.session?.labels.n).toBe(String(written[index]));
  }
  expect(lost).toEqual([]);
});
