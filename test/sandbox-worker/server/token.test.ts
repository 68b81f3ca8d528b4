import { readFileSync } from 'node:fs';
import http from 'node:http';
import http2 from 'node:http2';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { WorkerService } from '../../../gen/assay/internal/v1/worker_pb.js';
import { ExecutionService } from '../../../gen/assay/v1/execution_pb.js';
import { ShellService } from '../../../gen/assay/v1/shell_pb.js';
import { grpcFrame, methodPath } from '../../../services/shared/grpc-frame.ts';
import { eventually } from '../../e2e/eventually.ts';
import { startTestStack, type TestStack } from '../../e2e/stack.ts';

const unauthenticated = '16';
let stack: TestStack;
let address: string;
let worker: http2.ClientHttp2Session;
let token: string;

beforeAll(async () => {
  stack = await startTestStack();
  token = readFileSync(stack.stack.workerTokenFile, 'utf8').trim();
  address = await eventually(addressOfWorker);
  worker = http2.connect(`http://${address}`);
});
afterAll(async () => {
  worker?.destroy();
  await stack?.stop();
});

function addressOfWorker(): string {
  const ready = stack.stack.lastLines('worker').find((line) => line.includes('"msg":"ready"'));
  if (ready === undefined) throw new Error('the worker is not ready yet');
  return (JSON.parse(ready) as { address: string }).address;
}

/** A field that never ends: no call can do anything with it but complain, or hang up. */
const nonsense = grpcFrame(Buffer.from([0xff]));

/** The status with which the worker refuses the call, in its first headers. */
async function statusOf(path: string, authorization: string | undefined): Promise<string> {
  const stream = worker.request({
    ':method': 'POST',
    ':path': path,
    'content-type': 'application/grpc+proto',
    te: 'trailers',
    ...(authorization === undefined ? {} : { authorization }),
  });
  try {
    stream.on('error', () => {});
    stream.write(nonsense);
    return await new Promise((resolve) => {
      stream.once('response', (headers) => resolve(String(headers['grpc-status'])));
      stream.once('close', () => resolve('none: it hung up'));
    });
  } finally {
    stream.close(http2.constants.NGHTTP2_CANCEL);
  }
}

/** The same length, so that it is compared to its end. */
const wrong = (): string => `${token.slice(0, -1)}${token.endsWith('x') ? 'y' : 'x'}`;

const refused: [string, () => string | undefined][] = [
  ['no token', () => undefined],
  ['an empty one', () => 'Bearer '],
  ['a wrong one', () => `Bearer ${wrong()}`],
  ['the beginning of the right one', () => `Bearer ${token.slice(0, -1)}`],
  ['the right one and more', () => `Bearer ${token}x`],
  ['the right one without Bearer', () => token],
  ['the key of a client', () => `Bearer ${stack.key}`],
];

const served = [WorkerService, ExecutionService, ShellService].flatMap(({ methods }) => methods.map(methodPath));

describe.each(served)('%s of a worker', (path) => {
  test.each(refused)('is not for a caller with %s', async (_, authorization) => {
    expect(await statusOf(path, authorization())).toBe(unauthenticated);
  });

  test('takes the right token', async () => {
    expect(await statusOf(path, `Bearer ${token}`)).not.toBe(unauthenticated);
  });
});

const attach = methodPath(ExecutionService.method.attach);
const close = methodPath(WorkerService.method.closeSandbox);

/** The answer to a line, as far as its headers say it. */
function lineStatus(authorization: string | undefined, path = attach, body = nonsense): Promise<string> {
  const headers = { ...(authorization === undefined ? {} : { authorization }), 'content-length': body.length };
  return new Promise((resolve, reject) => {
    const url = `http://${address}${path}`;
    const request = http.request(url, { method: 'POST', headers, agent: false }, (response) => {
      response.resume();
      resolve(String(response.headers['grpc-status']));
    });
    request.on('error', reject);
    request.end(body);
  });
}

describe('a line to a worker', () => {
  test.each(refused)('is not for a caller with %s', async (_, authorization) => {
    expect(await lineStatus(authorization())).toBe(unauthenticated);
    expect(await lineStatus(authorization(), close)).toBe(unauthenticated);
  });

  test('refuses what it cannot read, what is too long, what is empty and what it does not serve', async () => {
    const invalidArgument = '3';
    const right = `Bearer ${token}`;
    expect(await lineStatus(right, attach, grpcFrame(Buffer.alloc(65_537)))).toBe(invalidArgument);
    expect(await lineStatus(right, attach, Buffer.alloc(0))).toBe(invalidArgument);
    expect(
      await lineStatus(right, attach, Buffer.concat([grpcFrame(Buffer.alloc(0)), grpcFrame(Buffer.alloc(0))])),
    ).toBe(invalidArgument);
    expect(await lineStatus(right, close)).toBe(invalidArgument);
    expect(await lineStatus(right)).not.toBe('undefined');
  });
});

test('a path that the worker does not serve says nothing to a caller without the token either', async () => {
  expect(await statusOf('/assay.internal.v1.WorkerService/NoSuchMethod', undefined)).toBe(unauthenticated);
});
