import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { SessionRecordSchema, VerificationRecordSchema } from '../../gen/assay/internal/v1/records_pb.js';
import { Scope } from '../../gen/assay/v1/key_pb.js';
import { SessionState } from '../../gen/assay/v1/session_pb.js';
import { VerificationState } from '../../gen/assay/v1/verification_pb.js';
import { createNatsVerificationStore } from '../../services/shared/store/nats-verification-store.ts';
import { reasonOf } from './reason.ts';
import { adminKey, clientsOf, type Protocol, type RunningService, runService } from './running-service.ts';
import type { WorkerDouble } from './worker-double.ts';

type Api = ReturnType<typeof clientsOf>;
const program = { case: 'command', value: 'true' } as const;
const verificationId = 'ver_01h455vb4pex5vsknk084sn02q';
const waitingId = 'ses_01h455vb4pex5vsknk084sn02q';
let service: RunningService;
let other: RunningService;
let worker: WorkerDouble;
let sessionId: string;

beforeAll(async () => {
  service = await runService();
  other = await runService({ nats: service.nats });
  worker = await service.addWorker({ heartbeatMs: 1_000 });
  // A command that says that it began, and then nothing.
  const begin: WorkerDouble['attach'] = (_request, stream) =>
    stream.event({ case: 'started', value: { executionId: 'x' } as never });
  worker.execute = begin as never;
  worker.attach = begin;
  const { session } = await clientsOf(service.transport(adminKey)).sessions.createSession({});
  sessionId = session?.sessionId ?? '';
  const waiting = { sessionId: waitingId, state: SessionState.CREATING, workerId: worker.workerId };
  await service.sessions.create(create(SessionRecordSchema, { project: 'default', session: waiting }));
  const verification = { verificationId, sessionId, state: VerificationState.PENDING };
  const store = createNatsVerificationStore({ broker: service.broker, onEventLost() {} });
  await store.create(create(VerificationRecordSchema, { project: 'default', verification }));
});
afterAll(async () => {
  await other.stop();
  await service.stop();
});

async function* once<T>(request: T): AsyncGenerator<T> {
  yield request;
  await new Promise(() => {});
}

const streams: [string, (api: Api) => AsyncIterable<unknown>][] = [
  ['Execute', ({ executions }) => executions.execute({ sessionId, program })],
  ['Attach', ({ executions }) => executions.attach({ sessionId, executionId: 'x' })],
  ['ExecuteMany', ({ executions }) => executions.executeMany(once({ call: 1, request: { sessionId, program } }))],
  ['FollowSession', ({ sessions }) => sessions.followSession({ sessionId: waitingId })],
  ['WatchVerification', ({ verifications }) => verifications.watchVerification({ verificationId })],
];
const rows = (['grpc', 'connect', 'grpc-web'] as Protocol[]).flatMap((protocol) =>
  streams.map(([name, open]) => [name, protocol, open] as const),
);

describe('a key that is revoked', () => {
  test.each(rows)('ends an open %s over %s with an error', async (_name, protocol, open) => {
    const { keyId, secret } = await service.makeKey(Scope.AGENT);
    const begun = Promise.withResolvers<void>();
    const read = async (): Promise<unknown> => {
      for await (const _ of open(clientsOf(service.transport(secret, protocol)))) begun.resolve();
      return 'ended';
    };
    const end = read().catch(reasonOf);
    await Promise.race([begun.promise, end]);
    // Another instance revokes it: this one hears of it from the store.
    await clientsOf(other.transport(adminKey)).keys.revokeKey({ keyId });
    expect(await end).toBe('UNAUTHENTICATED');
  });

  test('leaves the streams of other keys open', async () => {
    const { keyId } = await service.makeKey(Scope.AGENT);
    const { secret } = await service.makeKey(Scope.AGENT);
    const { verifications, keys } = clientsOf(service.transport(secret));
    const abort = new AbortController();
    const stream = verifications
      .watchVerification({ verificationId }, { signal: abort.signal })
      [Symbol.asyncIterator]();
    await stream.next();
    await clientsOf(service.transport(adminKey)).keys.revokeKey({ keyId });
    const next = stream.next().then(() => 'told', reasonOf);
    expect(reasonOf(await keys.listKeys({}).catch((error) => error))).toBe('SCOPE_MISSING');
    expect(await Promise.race([next, Promise.resolve('open')])).toBe('open');
    abort.abort();
    await next;
  });
});
