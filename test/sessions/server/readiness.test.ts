import { create } from '@bufbuild/protobuf';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { WorkerRecordSchema } from '../../../gen/assay/internal/v1/records_pb.js';
import { createReadiness, type Readiness } from '../../../services/sessions/server/readiness.ts';
import type { KnownWorker } from '../../../services/sessions/worker/worker-directory.ts';
import type { SideStoreRoom, StoreRoom } from '../../../services/shared/store/store-room.ts';

let connected: boolean;
let rooms: () => Promise<StoreRoom[]>;
let sideRooms: () => Promise<SideStoreRoom[]>;
let workers: KnownWorker[];
let probeWorkers: () => Promise<void>;
let readiness: Readiness;
const worker = (engineProblem = '', reachable = true, connectFailure?: string): KnownWorker => ({
  record: create(WorkerRecordSchema, { workerId: 'w', address: '10.0.0.1:7', engineProblem }),
  reachable,
  suspect: false,
  connectFailure,
});
const refusedWorker = () => worker('', true, 'connect ECONNREFUSED');
const advertised = 'worker w advertised 10.0.0.1:7 but cannot be reached: connect ECONNREFUSED';

beforeEach(() => {
  connected = true;
  rooms = async () => [{ name: 'assay_sessions', bytes: 50, maxBytes: 100 }];
  sideRooms = async () => [];
  workers = [worker()];
  probeWorkers = async () => {};
  readiness = createReadiness({
    connected: () => connected,
    rooms: () => rooms(),
    sideRooms: () => sideRooms(),
    workers: { all: () => workers },
    probeWorkers: () => probeWorkers(),
  });
});
afterEach(() => readiness.stop());

describe('an instance is ready', () => {
  test('with a broker, stores with room and a worker whose engine answers', async () => {
    expect(readiness.ready).toBe(false);
    expect(await readiness.look()).toEqual({
      ...{ ok: true, serving: true, store: 'ok', reachableWorkers: 1, problems: [], warnings: [] },
    });
    expect(readiness.ready).toBe(true);
  });

  test.each<[string, () => void, string]>([
    ['a connection to the broker', () => (connected = false), 'no connection to the broker'],
    ['an answer of the broker', () => (rooms = () => new Promise(() => {})), 'no answer within 2000 ms'],
    ['a worker', () => (workers = [worker('', false)]), 'no worker is reachable'],
    ['a worker that it can connect to', () => (workers = [refusedWorker()]), advertised],
    ['an engine that answers', () => (workers = [worker('the engine is down')]), 'an engine that answers'],
    [
      'room in a store',
      () => (rooms = async () => [{ name: 'assay_keys', bytes: 99, maxBytes: 100 }]),
      'the store assay_keys is full: 99 of 100 bytes',
    ],
  ])('not without %s', async (_title, spoil, problem) => {
    spoil();
    const found = await readiness.look();
    expect(found.ok).toBe(false);
    expect(found.problems.join()).toContain(problem);
    expect(readiness.ready).toBe(false);
  });

  test('as long as one worker of several has an engine that answers', async () => {
    workers = [worker('the engine is down'), worker()];
    expect((await readiness.look()).ok).toBe(true);
  });

  test('with a warning while it can connect to one worker of several', async () => {
    workers = [refusedWorker(), worker()];
    expect(await readiness.look()).toMatchObject({ ok: true, reachableWorkers: 1, warnings: [advertised] });
  });

  test('not with a worker that nobody has tried to reach yet, however short a time ago the others were', async () => {
    workers = [];
    await readiness.look();
    workers = [worker()];
    probeWorkers = async () => {
      workers = [refusedWorker()];
    };
    expect(await readiness.look()).toMatchObject({ ok: false, problems: ['no worker is reachable', advertised] });
  });

  test('without a warning of a worker that said it was about to stop, and has', async () => {
    const { record, ...known } = refusedWorker();
    workers = [{ ...known, record: { ...record, draining: true } }, worker()];
    expect(await readiness.look()).toMatchObject({ ok: true, reachableWorkers: 1, warnings: [] });
  });

  test('with a warning for each thing that the host of a worker is short of', async () => {
    const { record, ...known } = worker();
    workers = [{ ...known, record: { ...record, shortages: ['128 MiB of memory are available'] } }];
    const warnings = ['worker w: 128 MiB of memory are available'];
    expect(await readiness.look()).toMatchObject({ ok: true, problems: [], warnings });
  });

  test('though an attempt to connect to a worker goes on for long', async () => {
    probeWorkers = () => new Promise(() => {});
    expect((await readiness.look()).ok).toBe(true);
  });

  test.each<[string, () => Promise<SideStoreRoom[]>, string]>([
    [
      'is full',
      async () => [{ name: 'assay_results', bytes: 99, maxBytes: 100, whenFull: 'the oldest go' }],
      'the store assay_results is full: 99 of 100 bytes; the oldest go',
    ],
    [
      'fails',
      async () => [{ name: 'ASSAY_JOBS', bytes: 0, maxBytes: -1, whenFull: '', failure: 'stream not found' }],
      'the store ASSAY_JOBS cannot be used: stream not found',
    ],
    ['does not answer', () => new Promise(() => {}), 'cannot be looked at: no answer within 2000 ms'],
  ])('with a warning while a store without which it can serve %s', async (_title, spoil, warning) => {
    sideRooms = spoil;
    const found = await readiness.look();
    expect(found).toMatchObject({ ok: true, problems: [], warnings: [expect.stringContaining(warning)] });
    expect(readiness.ready).toBe(true);
  });

  test('until it is about to stop, which is told at once', async () => {
    await readiness.look();
    let told = 0;
    readiness.onChange(() => (told += 1));
    readiness.stop();
    expect([told, readiness.ready]).toEqual([1, false]);
    expect(await readiness.look()).toMatchObject({ ok: false, serving: false });
  });
});
