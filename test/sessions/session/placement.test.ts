import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { WorkerRecordSchema } from '../../../gen/assay/internal/v1/records_pb.js';
import { workerConfig } from '../../../services/sandbox-worker/config.ts';
import { placementOrder } from '../../../services/sessions/session/placement.ts';

const worker = (workerId: string, capacity: number, sessions = 0) => ({
  record: create(WorkerRecordSchema, { workerId, capacity, sessions }),
  reachable: true,
  suspect: false,
  connectFailure: undefined,
});

test('a worker may be set to have no sessions, and gets none', () => {
  expect(workerConfig.shape.ASSAY_WORKER_CAPACITY.parse('0')).toBe(0);
  const order = placementOrder([worker('grades', 0), worker('serves', 1)] as never, new Map());
  expect(order.map(({ workerId }) => workerId)).toEqual(['serves']);
  expect(() => placementOrder([worker('grades', 0)] as never, new Map())).toThrow(
    expect.objectContaining({ reason: 'NO_CAPACITY' }),
  );
});

test('creates under way of one project turn nobody away: the worker says who gets its last places', () => {
  const workers = [worker('asked', 4), worker('other', 4, 2), worker('full', 4, 4)];
  const order = placementOrder(workers as never, new Map([['asked', 6]]));
  expect(order.map(({ workerId }) => workerId)).toEqual(['other', 'asked']);
});
