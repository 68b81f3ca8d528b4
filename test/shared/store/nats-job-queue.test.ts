import { create, fromBinary } from '@bufbuild/protobuf';
import { connect } from '@nats-io/transport-node';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { EventSchema } from '../../../gen/assay/events/v1/events_pb.js';
import { VerificationJobSchema, VerificationRecordSchema } from '../../../gen/assay/internal/v1/records_pb.js';
import { VerificationState } from '../../../gen/assay/v1/verification_pb.js';
import { type Broker, connectBroker } from '../../../services/shared/store/broker.ts';
import { createNatsJobQueue, createNatsJobSource } from '../../../services/shared/store/nats-job-queue.ts';
import { createNatsVerificationStore } from '../../../services/shared/store/nats-verification-store.ts';
import { type NatsProcess, startNats } from './nats-process.ts';

let nats: NatsProcess;
let broker: Broker;

beforeAll(async () => {
  nats = await startNats();
  broker = await connectBroker({
    url: nats.url,
    user: nats.user,
    password: nats.password,
    name: 'test',
    replicas: 1,
  });
});
afterAll(async () => {
  await broker.close();
  await nats.stop();
});

const source = (ackWaitMs = 30_000) => createNatsJobSource({ broker, ackWaitMs, workerId: 'wrk-a' });

describe('the work queue', () => {
  test('gives a job to one taker, and keeps it until that one has acknowledged it', async () => {
    const queue = createNatsJobQueue(broker);
    await queue.publish('one', 'ver_a');
    await queue.publish('one', 'ver_a');
    expect(await queue.holds('one', 'ver_a')).toBe(true);
    expect(await source().projects()).toEqual(['one']);
    const job = await source().take('one');
    expect(fromBinary(VerificationJobSchema, job?.data ?? new Uint8Array())).toMatchObject({
      project: 'one',
      verificationId: 'ver_a',
    });
    expect(await source().take('one')).toBeUndefined();
    expect(await source().has(job?.sequence ?? 0n)).toBe(true);
    await job?.ack();
    expect(await queue.holds('one', 'ver_a')).toBe(false);
    expect(await source().has(job?.sequence ?? 0n)).toBe(false);
    expect(await source().projects()).toEqual([]);
  });

  test('gives a job that is for one worker to no other', async () => {
    const queue = createNatsJobQueue(broker);
    const other = createNatsJobSource({ broker, ackWaitMs: 30_000, workerId: 'wrk-b' });
    const heard: string[] = [];
    const unhear = other.onJob((project) => heard.push(project));
    await queue.publish('alone', 'ver_alone', 'wrk-a');
    expect(await queue.holds('alone', 'ver_alone', 'wrk-a')).toBe(true);
    expect(await queue.holds('alone', 'ver_alone')).toBe(false);
    expect(await other.projects()).toEqual([]);
    expect(await source().projects()).toEqual(['worker_wrk-a']);
    const job = await source().take('worker_wrk-a');
    expect(fromBinary(VerificationJobSchema, job?.data ?? new Uint8Array())).toMatchObject({ project: 'alone' });
    await job?.ack();
    expect(heard).toEqual([]);
    unhear();
  });

  test('brings a job again that was given back or left lying, under the same place', async () => {
    // The worker that was started last decides how long is waited.
    expect(await source(60_000).take('two')).toBeUndefined();
    await createNatsJobQueue(broker).publish('two', 'ver_b');
    const jobs = source(400);
    const first = await jobs.take('two');
    first?.nak(0);
    const next = () =>
      vi.waitFor(async () => {
        const job = await jobs.take('two');
        expect(job).toBeDefined();
        return job;
      }, 120_000);
    const second = await next();
    expect(second?.sequence).toBe(first?.sequence);
    const third = await next();
    expect(third?.sequence).toBe(first?.sequence);
    // An answer to an old delivery is as good as one to the last.
    await first?.ack();
    expect(await jobs.has(first?.sequence ?? 0n)).toBe(false);
  });

  test('gets a new consumer where the broker has lost it', async () => {
    const jobs = source();
    expect(await jobs.take('five')).toBeUndefined();
    await (await broker.js.jetstreamManager()).consumers.delete('ASSAY_JOBS', 'five');
    await createNatsJobQueue(broker).publish('five', 'ver_e');
    expect(await jobs.take('five')).toBeDefined();
  });

  test('drops a job that nobody can do anything with', async () => {
    await broker.js.publish('assay.jobs.three.poison', Buffer.from([0xff]));
    const job = await source().take('three');
    job?.term();
    await expect.poll(() => source().projects()).not.toContain('three');
  });

  test('tells of jobs as they come', async () => {
    const heard: string[] = [];
    const stop = source().onJob((project) => heard.push(project));
    await broker.connection.flush();
    await createNatsJobQueue(broker).publish('four', 'ver_d');
    await expect.poll(() => heard).toEqual(['four']);
    stop();
  });
});

describe('verification records', () => {
  const recordOf = (verificationId: string) =>
    create(VerificationRecordSchema, {
      project: 'p',
      verification: { verificationId, state: VerificationState.PENDING },
    });
  const store = () => createNatsVerificationStore({ broker, onEventLost: (error) => expect(error).toBeUndefined() });

  test('change by compare-and-set, each with an event, and to one end only', async () => {
    const nc = await connect({ servers: nats.url, user: nats.user, pass: nats.password });
    const events = nc.subscribe('assay.events.p.verification.ver_1', { max: 4 });
    await nc.flush();
    expect(await store().create(recordOf('ver_1'))).toBeDefined();
    expect(await store().create(recordOf('ver_1'))).toBeUndefined();
    const cancels = await Promise.all(
      Array.from({ length: 10 }, () => store().change('p', 'ver_1', { type: 'cancelRequested', atMs: 1 })),
    );
    expect(cancels.filter((made) => made?.changed)).toHaveLength(1);
    const last = await store().get('p', 'ver_1');
    if (last !== undefined) await store().announce(last);
    await store().create(recordOf('ver_2'));
    void events.drain();
    const told: string[] = [];
    for await (const message of events) {
      const { event } = fromBinary(EventSchema, message.data);
      if (event.case !== 'verificationChanged') throw new Error(`found ${event.case}`);
      const { verification, revision } = event.value;
      expect(message.headers?.get('Nats-Msg-Id')).toBe(`ver_1.${revision}`);
      told.push(VerificationState[verification?.state ?? 0] ?? '');
    }
    await nc.close();
    // Plain subscribers see the repetition too; in the stream it is one message.
    expect(told).toEqual(['PENDING', 'CANCELLED', 'CANCELLED']);
  });

  test('are watched as they are written', async () => {
    const seen: string[] = [];
    const stop = store().watch(({ verification }) => seen.push(verification?.verificationId ?? ''));
    await vi.waitFor(async () => {
      await store().create(recordOf(`ver_w${Math.random()}`));
      expect(seen.length).toBeGreaterThan(0);
    }, 120_000);
    stop();
  });
});
