import { create, fromBinary } from '@bufbuild/protobuf';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type SessionRecord, SessionRecordSchema } from '../../gen/assay/internal/v1/records_pb.js';
import {
  SessionEndReason,
  SessionEventSchema,
  SessionSampleSchema,
  SessionState,
} from '../../gen/assay/v1/session_pb.js';
import { ErrorInfoSchema } from '../../gen/google/rpc/error_details_pb.js';
import { StatusSchema } from '../../gen/google/rpc/status_pb.js';
import { createSessionFollower } from '../../services/sessions/transcript/session-follower.ts';
import { DomainError } from '../../services/shared/domain-error.ts';
import { createWorkShares } from '../../services/shared/work-shares.ts';
import { metadataOf, reasonOf } from './reason.ts';
import { adminKey, clientsOf, type Protocol, type RunningService, runService } from './running-service.ts';
import type { WorkerDouble } from './worker-double.ts';

let service: RunningService;
let worker: WorkerDouble;

beforeAll(async () => {
  service = await runService();
  worker = await service.addWorker({ heartbeatMs: 1_000 });
});
afterAll(() => service.stop());

type Api = ReturnType<typeof clientsOf>;
type Ask = (api: Api, sessionId: string) => Promise<unknown>;
const program = { case: 'command', value: 'true' } as const;
const ended = { state: 'CLOSED', session_reason: 'TTL_EXPIRED' };

/** A session whose worker, when it is asked for anything, has just closed it. */
async function closing(api: Api): Promise<string> {
  const sessionId = (await api.sessions.createSession({})).session?.sessionId ?? '';
  const sample = create(SessionSampleSchema, { name: { datasetId: 'd', sampleId: 's' } });
  await service.sessions.update('default', sessionId, (record) =>
    record.session === undefined ? undefined : { ...record, session: { ...record.session, sample } },
  );
  // From here on the service knows of the sample too.
  await api.sessions.getSession({ sessionId });
  const asked = async (): Promise<never> => {
    await worker.advance('default', sessionId, {
      type: 'closing',
      endReason: SessionEndReason.TTL_EXPIRED,
      message: 'it was time',
    });
    await worker.advance('default', sessionId, { type: 'closed', atMs: Date.now() });
    throw new DomainError('SESSION_NOT_FOUND', `no session ${sessionId} on this worker`);
  };
  worker.execute = asked;
  worker.attach = asked;
  const { calls } = worker;
  Object.assign(calls, { getExecution: asked, listShells: asked, pauseSandbox: asked, sealSubmission: asked });
  return sessionId;
}

async function first(events: AsyncIterable<unknown>): Promise<unknown> {
  return events[Symbol.asyncIterator]().next();
}

const asking: [string, Ask][] = [
  ['Execute', ({ executions }, sessionId) => first(executions.execute({ sessionId, program }))],
  ['Attach', ({ executions }, sessionId) => first(executions.attach({ sessionId, executionId: 'x' }))],
  ['GetExecution', ({ executions }, sessionId) => executions.getExecution({ sessionId, executionId: 'x' })],
  ['PauseSession', ({ sessions }, sessionId) => sessions.pauseSession({ sessionId })],
  ['StartVerification', ({ verifications }, sessionId) => verifications.startVerification({ sessionId })],
];

test.each(
  asking.flatMap(([method, ask]) => (['grpc', 'connect'] as Protocol[]).map((protocol) => ({ method, protocol, ask }))),
)(
  'a session that ends on the way of $method over $protocol is told as ended, not as unknown',
  async ({ ask, protocol }) => {
    const api = clientsOf(service.transport(adminKey, protocol));
    const sessionId = await closing(api);
    const error = await ask(api, sessionId).catch((caught) => caught);
    expect(reasonOf(error)).toBe('SESSION_ENDED');
    expect(metadataOf(error)).toEqual({ ...ended, session_id: sessionId });
  },
);

test('a session that ends on the way of a call among many is told as ended, not as unknown', async () => {
  const { executions, sessions } = clientsOf(service.transport(adminKey));
  const sessionId = await closing({ sessions } as Api);
  async function* requests() {
    yield { call: 1, request: { sessionId, program } };
  }
  for await (const { end } of executions.executeMany(requests())) {
    const details = fromBinary(StatusSchema, end?.status ?? new Uint8Array()).details[0];
    const info = fromBinary(ErrorInfoSchema, details?.value ?? new Uint8Array());
    expect(info).toMatchObject({ reason: 'SESSION_ENDED', metadata: ended });
  }
});

test('an execution that a live session does not have is told as the worker tells it', async () => {
  const api = clientsOf(service.transport(adminKey));
  const sessionId = (await api.sessions.createSession({})).session?.sessionId ?? '';
  worker.attach = async () => {
    throw new DomainError('EXECUTION_NOT_FOUND', 'no execution x', { execution_id: 'x' });
  };
  const error = await first(api.executions.attach({ sessionId, executionId: 'x' })).catch((caught) => caught);
  expect(reasonOf(error)).toBe('EXECUTION_NOT_FOUND');
  expect(metadataOf(error)).toEqual({ execution_id: 'x' });
});

test('a transcript up to now of a session that ends on the way is read from where it is then', async () => {
  const record = (state: SessionState) => create(SessionRecordSchema, { project: 'p', session: { state } });
  const records = [record(SessionState.READY), record(SessionState.CLOSED)];
  const follow = createSessionFollower({
    sessions: { fresh: async () => records.shift() as SessionRecord, until: async () => record(SessionState.CLOSED) },
    workers: { peek: () => ({ reachable: true, record: {} }) },
    client: { openStream: () => Promise.reject(new DomainError('SESSION_NOT_FOUND', 'no session on this worker')) },
    async *ended() {
      yield create(SessionEventSchema, { cursor: 'archived' });
    },
    cursors: { make: (_project: string, _session: string, place: string) => place },
    shares: createWorkShares(),
  } as never);
  const query = { sessionId: '', cursor: '', executionId: '', withoutOutput: false, untilNow: true };
  const places: string[] = [];
  for await (const { cursor } of follow('p', query, AbortSignal.timeout(60_000))) places.push(cursor);
  expect(places).toEqual(['0.0', 'archived', 'end']);
});
