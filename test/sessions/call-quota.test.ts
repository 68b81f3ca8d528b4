import { afterAll, beforeAll, expect, test } from 'vitest';
import { Scope } from '../../gen/assay/v1/key_pb.js';
import { reasonOf } from './reason.ts';
import { clientsOf, type Protocol, type RunningService, runService } from './running-service.ts';
import type { WorkerDouble } from './worker-double.ts';

let service: RunningService;
let worker: WorkerDouble;
beforeAll(async () => {
  const bytes = { ASSAY_LIMIT_UNFINISHED_BYTES_PER_KEY: '65536' };
  service = await runService({ env: { ASSAY_LIMIT_CALLS_PER_PROJECT: '3', ...bytes } });
  worker = await service.addWorker({ heartbeatMs: 1_000 });
});
afterAll(() => service.stop());

/** A key with a session in a project of its own. */
async function tenant(project: string, protocol: Protocol) {
  const { secret } = await service.makeKey(Scope.AGENT, project);
  const clients = clientsOf(service.transport(secret, protocol));
  const { session } = await clients.sessions.createSession({});
  return { ...clients, sessionId: session?.sessionId ?? '' };
}

/** Has the worker answer no input; resolves when so many have come. */
function holdInput(count: number): { came: Promise<void>; letGo(): void } {
  const came = Promise.withResolvers<void>();
  const held = Promise.withResolvers<void>();
  let heard = 0;
  worker.calls.writeInput = async () => {
    if (++heard === count) came.resolve();
    await held.promise;
    return { nextOffset: 1n };
  };
  return { came: came.promise, letGo: held.resolve };
}

test.each<Protocol>(['grpc', 'connect', 'grpc-web'])(
  'a project has only so many calls under way over %s, and other projects do not feel it',
  async (protocol) => {
    const alpha = await tenant(`alpha-${protocol}`, protocol);
    const beta = await tenant(`beta-${protocol}`, protocol);
    const { came, letGo } = holdInput(3);
    const input = { sessionId: alpha.sessionId, executionId: 'x', data: Buffer.from('1') };
    const waiting = Array.from({ length: 3 }, () => alpha.executions.writeInput(input));
    await came;
    const error = await alpha.sessions.getSession({ sessionId: alpha.sessionId }).catch((found) => found);
    expect(reasonOf(error)).toBe('CALL_QUOTA');
    expect(error.rawMessage).toContain('the project has 3 calls under way, the limit (ASSAY_LIMIT_CALLS_PER_PROJECT)');
    await beta.sessions.getSession({ sessionId: beta.sessionId });
    letGo();
    await Promise.all(waiting);
    await expect
      .poll(() => alpha.sessions.getSession({ sessionId: alpha.sessionId }).then(Boolean, () => false))
      .toBe(true);
  },
);

test.each<Protocol>(['grpc', 'connect', 'grpc-web'])(
  'what requests over %s hold until they are answered counts, and is given back also if their caller goes',
  async (protocol) => {
    const { executions, sessionId } = await tenant(`gamma-${protocol}`, protocol);
    const { came, letGo } = holdInput(1);
    const input = { sessionId, executionId: 'x', data: Buffer.alloc(40_000) };
    const leaving = new AbortController();
    const first = executions.writeInput(input, { signal: leaving.signal }).catch(() => {});
    await came;
    expect(reasonOf(await executions.writeInput(input).catch((found) => found))).toBe('REQUEST_QUOTA');
    leaving.abort();
    await first;
    letGo();
    await expect.poll(() => executions.writeInput(input).then(Boolean, () => false)).toBe(true);
  },
);
