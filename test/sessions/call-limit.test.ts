import { afterAll, beforeAll, expect, test } from 'vitest';
import { reasonOf } from './reason.ts';
import { adminKey, clientsOf, type Protocol, type RunningService, runService } from './running-service.ts';
import type { WorkerDouble } from './worker-double.ts';

let service: RunningService;
let worker: WorkerDouble;
let sessionId: string;
beforeAll(async () => {
  service = await runService({ env: { ASSAY_LIMIT_CALL_SECONDS: '1' } });
  worker = await service.addWorker({ heartbeatMs: 1_000 });
  const { session } = await clientsOf(service.transport(adminKey)).sessions.createSession({});
  sessionId = session?.sessionId ?? '';
});
afterAll(() => service.stop());

test.each<Protocol>(['grpc', 'connect', 'grpc-web'])(
  'a call over %s with one answer that does not come ends with DEADLINE_EXCEEDED',
  async (protocol) => {
    worker.calls.getExecution = () => new Promise(() => {});
    const { executions } = clientsOf(service.transport(adminKey, protocol));
    const error = await executions.getExecution({ sessionId, executionId: 'x' }).catch((found) => found);
    expect(reasonOf(error)).toBe('DEADLINE_EXCEEDED');
    expect(error.rawMessage).toContain('longer than 1 s');
  },
);
