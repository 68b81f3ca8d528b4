import { createRegistry } from '@bufbuild/protobuf';
import { ConnectError } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { file_assay_v1_execution } from '../../gen/assay/v1/execution_pb.js';
import { file_assay_v1_key, Scope } from '../../gen/assay/v1/key_pb.js';
import { file_assay_v1_sample } from '../../gen/assay/v1/sample_pb.js';
import { file_assay_v1_server } from '../../gen/assay/v1/server_pb.js';
import { file_assay_v1_session } from '../../gen/assay/v1/session_pb.js';
import { file_assay_v1_shell } from '../../gen/assay/v1/shell_pb.js';
import { file_assay_v1_types, NetworkMode } from '../../gen/assay/v1/types_pb.js';
import { file_assay_v1_verification } from '../../gen/assay/v1/verification_pb.js';
import { metadataOf, reasonOf, violatedFieldsOf } from './reason.ts';
import { adminKey, clientsOf, type Protocol, type RunningService, runService } from './running-service.ts';

const files = [file_assay_v1_execution, file_assay_v1_key, file_assay_v1_sample, file_assay_v1_session];
const registry = createRegistry(
  ...files,
  file_assay_v1_server,
  file_assay_v1_shell,
  file_assay_v1_types,
  file_assay_v1_verification,
);
/** A field that is a map, and one of its keys. */
const mapKey = /^(env|labels)\.\w+$/;
/** The names of all fields and oneofs of the API. */
const fieldNames: ReadonlySet<string> = new Set(
  [...registry]
    .flatMap((type) => (type.kind === 'message' ? [...type.fields, ...type.oneofs] : []))
    .map(({ name }) => name),
);

let service: RunningService;
beforeAll(async () => {
  service = await runService();
});
afterAll(() => service.stop());

type Api = ReturnType<typeof clientsOf>;
const sessionId = 'ses_01h455vb4pex5vsknk084sn02q';
const command = { case: 'command', value: 'true' } as const;
const mebibyte = 1_048_576;
const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${i}`, 'v']));

async function execute(api: Api, request: Parameters<Api['executions']['execute']>[0]): Promise<void> {
  for await (const _ of api.executions.execute({ sessionId, program: command, ...request })) return;
}

function egress(api: Api, ...allow: string[]): Promise<unknown> {
  return api.sessions.createSession({ network: { mode: NetworkMode.EGRESS, allow } });
}

/** What is asked, the field that the error names, and its limit where it has one. */
const rows: [title: string, field: string, limit: string | undefined, ask: (api: Api) => Promise<unknown>][] = [
  ['no command', 'program', undefined, (api) => execute(api, { program: { case: undefined } })],
  ['an empty command', 'command', undefined, (api) => execute(api, { program: { case: 'command', value: ' ' } })],
  [
    'a command over 1 MiB',
    'command',
    '1048576',
    (api) => execute(api, { program: { case: 'command', value: 'x'.repeat(mebibyte + 1) } }),
  ],
  ['a NUL in a command', 'command', undefined, (api) => execute(api, { program: { case: 'command', value: 'a\0b' } })],
  [
    'an empty script',
    'script',
    undefined,
    (api) => execute(api, { program: { case: 'script', value: new Uint8Array() } }),
  ],
  ['an empty argv', 'argv', undefined, (api) => execute(api, { program: { case: 'argv', value: { args: [] } } })],
  [
    'too many arguments',
    'argv',
    '4096',
    (api) => execute(api, { program: { case: 'argv', value: { args: Array(4_097).fill('a') } } }),
  ],
  ['a bad shell id', 'shell_id', undefined, (api) => execute(api, { shellId: '../main' })],
  ['variables for a shell', 'env', undefined, (api) => execute(api, { shellId: 'main', env: { A: 'b' } })],
  [
    'a directory for a shell',
    'working_directory',
    undefined,
    (api) => execute(api, { shellId: 'main', workingDirectory: '/tmp' }),
  ],
  [
    'a program for a shell',
    'argv',
    undefined,
    (api) => execute(api, { shellId: 'main', program: { case: 'argv', value: { args: ['ls'] } } }),
  ],
  ['a bad session id', 'session_id', undefined, (api) => execute(api, { sessionId: '../../etc' })],
  ['a bad execution id', 'execution_id', undefined, (api) => execute(api, { executionId: '-rf' })],
  ['a long execution id', 'execution_id', undefined, (api) => execute(api, { executionId: 'x'.repeat(129) })],
  ['a bad variable', 'env', undefined, (api) => execute(api, { env: { 'A=B': 'x' } })],
  ['a NUL in a variable', 'env.A', undefined, (api) => execute(api, { env: { A: '\0' } })],
  ['too many variables', 'env', '256', (api) => execute(api, { env: many(257) })],
  ['too large variables', 'env', '65536', (api) => execute(api, { env: { A: 'x'.repeat(70_000) } })],
  ['a relative directory', 'working_directory', undefined, (api) => execute(api, { workingDirectory: 'src' })],
  [
    'a long directory',
    'working_directory',
    '4096',
    (api) => execute(api, { workingDirectory: `/${'x'.repeat(4_096)}` }),
  ],
  ['no time at all', 'timeout', '1', (api) => execute(api, { timeout: { seconds: 0n, nanos: 0 } })],
  ['a timeout over a day', 'timeout', '86400000', (api) => execute(api, { timeout: { seconds: 86_401n, nanos: 0 } })],
  ['an absurd timeout', 'timeout', undefined, (api) => execute(api, { timeout: { seconds: 1n, nanos: -5 } })],
  ['absurd kept output', 'output_kept_bytes', '1073741824', (api) => execute(api, { outputKeptBytes: 2n ** 62n })],
  ['negative kept output', 'output_kept_bytes', '0', (api) => execute(api, { outputKeptBytes: -1n })],
  ['a terminal of no size', 'terminal.rows', '1', (api) => execute(api, { terminal: { columns: 80 } })],
  ['a huge terminal', 'terminal.columns', '1000', (api) => execute(api, { terminal: { rows: 24, columns: 1_001 } })],
  ['no new size', 'size', undefined, (api) => api.executions.resizeTerminal({ sessionId, executionId: 'x' })],
  [
    'a huge new size',
    'size.rows',
    '1000',
    (api) => api.executions.resizeTerminal({ sessionId, executionId: 'x', size: { rows: 2_000_000_000, columns: 1 } }),
  ],
  [
    'a signal that is none',
    'signal',
    undefined,
    (api) => api.executions.signalExecution({ sessionId, executionId: 'x', signal: 65 }),
  ],
  [
    'input over 1 MiB',
    'data',
    '1048576',
    (api) => api.executions.writeInput({ sessionId, executionId: 'x', data: new Uint8Array(mebibyte + 1) }),
  ],
  [
    'an absurd offset',
    'offset',
    '9007199254740991',
    (api) => api.executions.writeInput({ sessionId, executionId: 'x', offset: 2n ** 60n }),
  ],
  [
    'a negative offset',
    'offset',
    '0',
    (api) => api.executions.writeInput({ sessionId, executionId: 'x', offset: -1n }),
  ],
  ['no execution id', 'execution_id', undefined, (api) => api.executions.getExecution({ sessionId })],
  ['a request id with spaces', 'request_id', undefined, (api) => api.sessions.createSession({ requestId: 'a b' })],
  [
    'a sample without its dataset',
    'sample.dataset_id',
    undefined,
    (api) => api.sessions.createSession({ sample: { sampleId: 'x' } }),
  ],
  [
    'a dataset without a sample',
    'sample.sample_id',
    undefined,
    (api) => api.sessions.createSession({ sample: { datasetId: 'x' } }),
  ],
  [
    'a bad version of a sample',
    'sample.version',
    undefined,
    (api) => api.sessions.createSession({ sample: { datasetId: 'x', sampleId: 'y', version: '../1' } }),
  ],
  [
    'an image beside a sample',
    'image',
    undefined,
    (api) => api.sessions.createSession({ sample: { datasetId: 'x', sampleId: 'y' }, image: 'debian:12' }),
  ],
  [
    'a network beside a sample',
    'network',
    undefined,
    (api) =>
      api.sessions.createSession({ sample: { datasetId: 'x', sampleId: 'y' }, network: { mode: NetworkMode.FULL } }),
  ],
  ['a bad image', 'image', undefined, (api) => api.sessions.createSession({ image: '-v /:/host' })],
  ['too many labels', 'labels', '32', (api) => api.sessions.createSession({ labels: many(33) })],
  ['a long label', 'labels.a', '256', (api) => api.sessions.createSession({ labels: { a: 'x'.repeat(257) } })],
  ['a bad label', 'labels', undefined, (api) => api.sessions.createSession({ labels: { '': 'x' } })],
  ['too few cores', 'limits.cpus', '0.05', (api) => api.sessions.createSession({ limits: { cpus: 0.01 } })],
  ['too many cores', 'limits.cpus', '64', (api) => api.sessions.createSession({ limits: { cpus: 65 } })],
  [
    'no number of cores',
    'limits.cpus',
    undefined,
    (api) => api.sessions.createSession({ limits: { cpus: Number.NaN } }),
  ],
  [
    'too little memory',
    'limits.memory_bytes',
    '16777216',
    (api) => api.sessions.createSession({ limits: { memoryBytes: 1n } }),
  ],
  [
    'absurd memory',
    'limits.memory_bytes',
    String(2 ** 40),
    (api) => api.sessions.createSession({ limits: { memoryBytes: 2n ** 62n } }),
  ],
  [
    'too little disk',
    'limits.disk_bytes',
    '16777216',
    (api) => api.sessions.createSession({ limits: { diskBytes: 1n } }),
  ],
  ['too few processes', 'limits.pids', '8', (api) => api.sessions.createSession({ limits: { pids: 1 } })],
  ['a short life', 'ttl', '1000', (api) => api.sessions.createSession({ ttl: { seconds: 0n, nanos: 1_000_000 } })],
  ['a long life', 'ttl', '86400000', (api) => api.sessions.createSession({ ttl: { seconds: 90_000n, nanos: 0 } })],
  [
    'a long life, later',
    'ttl',
    '86400000',
    (api) => api.sessions.updateSession({ sessionId, ttl: { seconds: 90_000n, nanos: 0 } }),
  ],
  [
    'a mask that names what cannot be changed',
    'update_mask',
    undefined,
    (api) => api.sessions.updateSession({ sessionId, updateMask: { paths: ['image'] } }),
  ],
  [
    'a mask that names a time to live that is not there',
    'ttl',
    undefined,
    (api) => api.sessions.updateSession({ sessionId, updateMask: { paths: ['ttl'] } }),
  ],
  [
    'a network that is none',
    'network.mode',
    undefined,
    (api) => api.sessions.createSession({ network: { mode: 9 as NetworkMode } }),
  ],
  [
    'hosts without egress',
    'network.allow',
    undefined,
    (api) => api.sessions.createSession({ network: { mode: NetworkMode.FULL, allow: ['example.org'] } }),
  ],
  ['too many hosts', 'network.allow', '64', (api) => egress(api, ...Array<string>(65).fill('example.org'))],
  ['an address as a host', 'network.allow[1]', undefined, (api) => egress(api, 'example.org', '192.0.2.1')],
  ['every host', 'network.allow[0]', undefined, (api) => egress(api, '*')],
  ['a URL as a host', 'network.allow[0]', undefined, (api) => egress(api, 'https://example.org/')],
  ['a bad port', 'network.allow[0]', undefined, (api) => egress(api, 'example.org:70000')],
  ['a negative page', 'page_size', undefined, (api) => api.sessions.listSessions({ pageSize: -1 })],
  ['a state that is none', 'states', undefined, (api) => api.sessions.listSessions({ states: [99 as never] })],
  ['no scope', 'scopes', undefined, (api) => api.keys.createKey({})],
  ['a scope that is none', 'scopes', undefined, (api) => api.keys.createKey({ scopes: [42 as Scope] })],
  ['a bad project', 'project', undefined, (api) => api.keys.createKey({ scopes: [Scope.AGENT], project: 'A.b' })],
  [
    'a long description',
    'description',
    '256',
    (api) => api.keys.createKey({ scopes: [Scope.AGENT], description: 'x'.repeat(257) }),
  ],
  ['a bad key id', 'key_id', undefined, (api) => api.keys.revokeKey({ keyId: '>' })],
];

describe.each<Protocol>(['grpc', 'connect'])('over %s', (protocol) => {
  test.each(rows)('%s is refused and the error names %s', async (_title, field, limit, ask) => {
    const api = clientsOf(service.transport(adminKey, protocol));
    const error = await ask(api).then(
      () => expect.unreachable('it was taken'),
      (e: unknown) => e,
    );
    expect(reasonOf(error)).toBe(limit === undefined ? 'INVALID_FIELD' : 'LIMIT_EXCEEDED');
    expect(metadataOf(error)).toMatchObject(limit === undefined ? { field } : { field, limit });
    expect(ConnectError.from(error).rawMessage).toContain(field);
    expect(violatedFieldsOf(error)).toEqual([field]);
    expect(
      field
        .replace(mapKey, '$1')
        .split(/\[\d+\]|\./)
        .filter((name) => name !== '' && !fieldNames.has(name)),
    ).toEqual([]);
  });
});

test.each<Protocol>(['grpc', 'connect'])(
  'a request that is too long names the limit and no field over %s',
  async (protocol) => {
    const program = { case: 'command', value: 'x'.repeat(10 * mebibyte) } as const;
    const error = await execute(clientsOf(service.transport(adminKey, protocol)), { program }).catch((e: unknown) => e);
    expect(reasonOf(error)).toBe('LIMIT_EXCEEDED');
    expect(metadataOf(error)).toEqual({ limit: '4194304' });
    expect(violatedFieldsOf(error)).toEqual([]);
  },
);

test('JSON of the wrong type is refused and the error names the field', async () => {
  const response = await fetch(`http://127.0.0.1:${service.port}/assay.v1.SessionService/GetSession`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${adminKey}` },
    body: '{"sessionId": 7}',
  });
  expect(response.status).toBe(400);
  const { code, message, details } = (await response.json()) as { code: string; message: string; details: unknown[] };
  expect(code).toBe('invalid_argument');
  expect(message).toContain('session_id');
  expect(details).toMatchObject([{ type: 'google.rpc.ErrorInfo' }, { type: 'google.rpc.BadRequest' }]);
});
