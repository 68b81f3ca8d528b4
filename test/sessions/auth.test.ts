import { create, type DescMethod } from '@bufbuild/protobuf';
import { createClient, type Transport } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { VerificationRecordSchema } from '../../gen/assay/internal/v1/records_pb.js';
import { Scope } from '../../gen/assay/v1/key_pb.js';
import { VerificationState } from '../../gen/assay/v1/verification_pb.js';
import { requirementsByMethod, scopeTable } from '../../services/sessions/auth/scope-table.ts';
import { createNatsVerificationStore } from '../../services/shared/store/nats-verification-store.ts';
import { reasonOf } from './reason.ts';
import { adminKey, clientsOf, type Protocol, type RunningService, runService } from './running-service.ts';

let service: RunningService;
let keys: { revoked: string; grader: string; agent: string; stranger: string; strangerKeyId: string };
let sessionId: string;
const verificationId = 'ver_01h455vb4pex5vsknk084sn02q';

beforeAll(async () => {
  service = await runService({ env: { ASSAY_LIMIT_DENIALS_PER_SECOND: '100000' } });
  await service.addWorker({ heartbeatMs: 1_000 });
  const { sessions, keys: admin } = clientsOf(service.transport(adminKey));
  const revoked = await service.makeKey(Scope.ADMIN);
  await admin.revokeKey({ keyId: revoked.keyId });
  const stranger = await service.makeKey(Scope.ADMIN, 'stranger');
  keys = {
    revoked: revoked.secret,
    grader: (await service.makeKey(Scope.GRADER)).secret,
    agent: (await service.makeKey(Scope.AGENT)).secret,
    stranger: stranger.secret,
    strangerKeyId: stranger.keyId,
  };
  sessionId = (await sessions.createSession({})).session?.sessionId ?? '';
  const verification = { verificationId, sessionId, state: VerificationState.CANCELLED };
  const record = create(VerificationRecordSchema, { project: 'default', verification });
  await createNatsVerificationStore({ broker: service.broker, onEventLost() {} }).create(record);
});
afterAll(() => service.stop());

/** Every RPC of the public port, from the descriptors: a new one is in here by itself. */
const everyRpc = scopeTable.flatMap(([desc]) => desc.methods.map((method) => ({ method, name: nameOf(method) })));
const requirements = requirementsByMethod();
const guarded = everyRpc.filter(({ name }) => requirements.get(name) !== 'nothing');

function nameOf(method: DescMethod): string {
  return `${method.parent.typeName}/${method.name}`;
}

/** Calls any RPC with fields that are right for all of them; resolves with the first answer or the error. */
async function call(method: DescMethod, transport: Transport): Promise<unknown> {
  const program = { case: 'command', value: 'true' };
  const size = { rows: 24, columns: 80 };
  const request = {
    sessionId,
    verificationId,
    executionId: 'x',
    shellId: 'x',
    program,
    signal: 15,
    size,
    keyId: 'operator1',
    scopes: [Scope.AGENT],
  };
  const client = createClient(method.parent, transport) as unknown as Record<string, (request: unknown) => unknown>;
  async function* one() {
    yield { messageRequest: { case: 'listServices', value: '' } };
  }
  try {
    const input = method.methodKind === 'bidi_streaming' ? one() : request;
    const result = client[method.localName]?.(input);
    if (method.methodKind === 'unary') return await result;
    for await (const message of result as AsyncIterable<unknown>) return message;
    return undefined;
  } catch (error) {
    return error;
  }
}

describe.each<Protocol>(['grpc', 'connect', 'grpc-web'])('over %s', (protocol) => {
  const denied = async (method: DescMethod, key: string | undefined) =>
    reasonOf(await call(method, service.transport(key, protocol)));

  test.each(guarded)('$name is denied without a key', async ({ method }) => {
    expect(await denied(method, undefined)).toBe('UNAUTHENTICATED');
  });

  test.each(guarded)('$name is denied with a wrong key', async ({ method }) => {
    expect(await denied(method, 'nonsense')).toBe('UNAUTHENTICATED');
    expect(await denied(method, 'assay_nobody_0123456789abcdef0123456789abcdef')).toBe('UNAUTHENTICATED');
    expect(await denied(method, adminKey.replace(/.$/, '0'))).toBe('UNAUTHENTICATED');
  });

  test.each(guarded)('$name is denied with a revoked key', async ({ method }) => {
    expect(await denied(method, keys.revoked)).toBe('UNAUTHENTICATED');
  });

  test.each(guarded.filter(({ name }) => requirements.get(name) !== 'key'))(
    '$name is denied with a key whose scope is too narrow',
    async ({ method, name }) => {
      const narrow = requirements.get(name) === 'grader' ? keys.agent : keys.grader;
      expect(await denied(method, narrow)).toBe('SCOPE_MISSING');
      if (requirements.get(name) === 'admin') expect(await denied(method, keys.agent)).toBe('SCOPE_MISSING');
    },
  );

  test.each(guarded)('$name shows nothing to a key of another project', async ({ method, name }) => {
    const fields = method.input.fields.map((field) => field.name);
    if (fields.includes('session_id')) return expect(await denied(method, keys.stranger)).toBe('SESSION_NOT_FOUND');
    if (fields.includes('verification_id')) {
      return expect(await denied(method, keys.stranger)).toBe('VERIFICATION_NOT_FOUND');
    }
    if (fields.includes('worker_id') && requirements.get(name) === 'admin') {
      return expect(await denied(method, keys.stranger)).toBe('SCOPE_MISSING');
    }
    if (fields.includes('key_id')) return expect(await denied(method, keys.stranger)).toBe('KEY_NOT_FOUND');
    // What names no record: each is known here to answer for the caller's own project, or for none.
    const answered = [
      // Each of its calls is let in by itself: many-calls.test.ts.
      'assay.v1.ExecutionService/ExecuteMany',
      'assay.v1.SessionService/CreateSession',
      'assay.v1.SessionService/ListSessions',
      'assay.v1.SampleService/ListDatasets',
      'assay.v1.SampleService/ListSamples',
      'assay.v1.SampleService/GetSample',
      'assay.v1.SampleService/DownloadSample',
      'assay.v1.SampleService/BuildSample',
      'assay.v1.SampleService/ValidateSample',
      'assay.v1.KeyService/CreateKey',
      'assay.v1.KeyService/ListKeys',
      'assay.v1.ServerService/GetServerInfo',
      'assay.v1.WorkerService/ListWorkers',
      'assay.v1.WorkerService/GetWorker',
      'grpc.reflection.v1.ServerReflection/ServerReflectionInfo',
      'grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo',
    ];
    expect(answered).toContain(name);
  });

  test.each(everyRpc.filter(({ name }) => requirements.get(name) === 'nothing'))(
    '$name answers without a key',
    async ({ method }) => {
      const answer = await call(method, service.transport(undefined, protocol));
      expect(answer).toMatchObject(method.name === 'List' ? { statuses: { '': { status: 1 } } } : { status: 1 });
    },
  );
});

describe('projects', () => {
  test('a list shows the records of the own project only', async () => {
    const { sessions, keys: admin } = clientsOf(service.transport(keys.stranger));
    await sessions.createSession({ labels: { whose: 'stranger' } });
    const listed = (await sessions.listSessions({})).sessions;
    expect(listed.length).toBeGreaterThan(0);
    expect(listed.map(({ sessionId: id }) => id)).not.toContain(sessionId);
    const listedKeys = (await admin.listKeys({})).keys;
    expect(listedKeys.map(({ keyId }) => keyId)).toContain(keys.strangerKeyId);
    expect(new Set(listedKeys.map(({ project }) => project))).toEqual(new Set(['stranger']));
  });

  test('an admin of another project makes no key for the operator', async () => {
    const { keys: admin } = clientsOf(service.transport(keys.stranger));
    const error = await admin.createKey({ scopes: [Scope.ADMIN], project: 'default' }).catch((e) => e);
    expect(reasonOf(error)).toBe('SCOPE_MISSING');
  });
});

describe('keys of other projects', () => {
  const ids = (keys: readonly { keyId: string }[]) => keys.map(({ keyId }) => keyId);

  test('are listed by an admin of the operator, of one project or of all', async () => {
    const { keys: admin } = clientsOf(service.transport(adminKey));
    const theirs = (await admin.listKeys({ project: 'stranger' })).keys;
    expect(ids(theirs)).toContain(keys.strangerKeyId);
    expect(new Set(theirs.map(({ project }) => project))).toEqual(new Set(['stranger']));
    const all = (await admin.listKeys({ project: '*', pageSize: 1_000 })).keys;
    expect(ids(all)).toEqual(expect.arrayContaining([keys.strangerKeyId, 'operator1']));
    expect(ids((await admin.listKeys({})).keys)).not.toContain(keys.strangerKeyId);
  });

  test('are neither listed nor revoked by an admin of another', async () => {
    const { keys: stranger } = clientsOf(service.transport(keys.stranger));
    for (const project of ['default', '*']) {
      expect(reasonOf(await stranger.listKeys({ project }).catch((e) => e))).toBe('SCOPE_MISSING');
    }
    expect(reasonOf(await stranger.revokeKey({ keyId: 'operator1' }).catch((e) => e))).toBe('KEY_NOT_FOUND');
  });

  test('are revoked by an admin of the operator', async () => {
    const { keyId, secret } = await service.makeKey(Scope.AGENT, 'stranger');
    const { key } = await clientsOf(service.transport(adminKey)).keys.revokeKey({ keyId });
    expect(key).toMatchObject({ keyId, project: 'stranger', revokeTime: expect.anything() });
    const { sessions } = clientsOf(service.transport(secret));
    expect(reasonOf(await sessions.listSessions({}).catch((e) => e))).toBe('UNAUTHENTICATED');
  });
});

describe('keys', () => {
  test('a request id makes one key, and the secret is shown once', async () => {
    const { keys: admin } = clientsOf(service.transport(adminKey));
    const request = { scopes: [Scope.AGENT], description: 'ci', requestId: 'key-1' };
    const first = await admin.createKey(request);
    const second = await admin.createKey(request);
    expect(first.secret).toMatch(/^assay_/);
    expect(second).toMatchObject({ secret: '', key: { keyId: first.key?.keyId } });
    const other = await admin.createKey({ ...request, description: 'other' }).catch((e) => e);
    expect(reasonOf(other)).toBe('REQUEST_ID_REUSED');
  });

  test('a key works at once and stops at once', async () => {
    const { keyId, secret } = await service.makeKey(Scope.AGENT);
    const { sessions } = clientsOf(service.transport(secret));
    await sessions.listSessions({});
    await clientsOf(service.transport(adminKey)).keys.revokeKey({ keyId });
    expect(reasonOf(await sessions.listSessions({}).catch((e) => e))).toBe('UNAUTHENTICATED');
  });
});
