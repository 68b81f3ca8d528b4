import { fromBinary } from '@bufbuild/protobuf';
import { anyUnpack } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { ExecutionEvent } from '../../gen/assay/v1/execution_pb.js';
import { RetryInfoSchema } from '../../gen/google/rpc/error_details_pb.js';
import { StatusSchema } from '../../gen/google/rpc/status_pb.js';
import { DomainError } from '../../services/shared/domain-error.ts';
import { reasonOf, retryMsOf, violatedFieldsOf } from './reason.ts';
import { adminKey, clientsOf, type Protocol, type RunningService, runService } from './running-service.ts';
import type { WorkerDouble } from './worker-double.ts';

let service: RunningService;
let worker: WorkerDouble;
let sessionId: string;
let greet: WorkerDouble['execute'];

beforeAll(async () => {
  service = await runService();
  worker = await service.addWorker({ heartbeatMs: 1_000 });
  greet = worker.execute;
  const { session } = await clientsOf(service.transport(adminKey)).sessions.createSession({});
  sessionId = session?.sessionId ?? '';
});
afterAll(() => service.stop());
beforeEach(() => {
  worker.execute = greet;
});

const program = { case: 'command', value: 'true' } as const;
const started = { case: 'started', value: { executionId: 'x' } } as unknown as ExecutionEvent['event'];
const full = new DomainError('SHELL_QUEUE_FULL', 'too many wait', { limit: '7' });

async function failureOf(events: AsyncIterable<unknown>): Promise<unknown> {
  try {
    for await (const _ of events);
  } catch (error) {
    return error;
  }
  return expect.unreachable('it ended well');
}

describe.each<Protocol>(['grpc', 'connect', 'grpc-web'])('over %s', (protocol) => {
  const api = () => clientsOf(service.transport(adminKey, protocol));

  test('a field that is not valid is named by a call with one answer', async () => {
    const error = await api()
      .sessions.getSession({ sessionId: 'nonsense' })
      .catch((e: unknown) => e);
    expect(violatedFieldsOf(error)).toEqual(['session_id']);
    const onHotPath = await api()
      .executions.getExecution({ sessionId, executionId: '>' })
      .catch((e: unknown) => e);
    expect(violatedFieldsOf(onHotPath)).toEqual(['execution_id']);
  });

  test('a field that is not valid is named by a stream', async () => {
    const error = await failureOf(api().executions.execute({ sessionId: 'nonsense', program }));
    expect(violatedFieldsOf(error)).toEqual(['session_id']);
  });

  test.each([
    ['before the first event', false],
    ['in mid-stream', true],
  ])("a worker's error arrives %s with the delay after which to try again", async (_when, late) => {
    worker.execute = async (_request, stream) => {
      if (late) await stream.event(started);
      throw full;
    };
    const error = await failureOf(api().executions.execute({ sessionId, program }));
    expect([reasonOf(error), retryMsOf(error)]).toEqual(['SHELL_QUEUE_FULL', 1_000]);
  });

  test("a worker's error arrives with the delay in a call with one answer", async () => {
    const before = worker.calls.getExecution;
    worker.calls.getExecution = () => {
      throw full;
    };
    const error = await api()
      .executions.getExecution({ sessionId, executionId: 'x' })
      .catch((e: unknown) => e);
    if (before !== undefined) worker.calls.getExecution = before;
    expect([reasonOf(error), retryMsOf(error)]).toEqual(['SHELL_QUEUE_FULL', 1_000]);
  });
});

test.each<Protocol>(['grpc', 'connect'])(
  'one of many commands on a stream ends with its details over %s',
  async (protocol) => {
    worker.execute = async (_request, stream) => stream.fail(full);
    const answered = Promise.withResolvers<void>();
    async function* requests() {
      yield { call: 1, request: { sessionId, program } };
      await answered.promise;
    }
    for await (const { end } of clientsOf(service.transport(adminKey, protocol)).executions.executeMany(requests())) {
      if (end === undefined) continue;
      answered.resolve();
      const { details } = fromBinary(StatusSchema, end.status);
      const delays = details.map((any) => anyUnpack(any, RetryInfoSchema)?.retryDelay?.seconds);
      expect(delays.filter((seconds) => seconds !== undefined)).toEqual([1n]);
    }
  },
);
