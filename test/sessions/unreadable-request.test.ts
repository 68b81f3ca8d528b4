import { fromBinary } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ErrorInfoSchema } from '../../gen/google/rpc/error_details_pb.js';
import { StatusSchema } from '../../gen/google/rpc/status_pb.js';
import { grpcFrame } from '../../services/shared/grpc-frame.ts';
import { openHttp2, openRawCall } from './raw-call.ts';
import { adminKey, type RunningService, runService } from './running-service.ts';

const unary = 'assay.v1.SessionService/CreateSession';
const streamed = 'assay.v1.ExecutionService/Execute';
const many = 'assay.v1.ExecutionService/ExecuteMany';
const json = Buffer.from('{"ttll":"60s"}');
/** A field that never ends. */
const cut = Buffer.from([0x0a, 0xff]);
const half = grpcFrame(Buffer.alloc(10)).subarray(0, 9);

let service: RunningService;
beforeAll(async () => {
  service = await runService();
});
afterAll(() => service?.stop());

/** All that came back: headers, body and trailers. */
async function answerTo(method: string, headers: Record<string, string>, body: Buffer): Promise<string> {
  const session = await openHttp2(service.port);
  const call = openRawCall(session, method, { key: adminKey, protocol: 'connect', headers });
  call.stream.end(body);
  const told = await call.told;
  session.destroy();
  return told;
}

/** The ErrorInfo of an answer, in whichever form its protocol has it. */
function infoOf(told: string) {
  const inTrailers = /grpc-status-details-bin"?: ?"?([\w+/]+)/.exec(told)?.[1];
  if (inTrailers !== undefined) {
    const [any] = fromBinary(StatusSchema, Buffer.from(inTrailers, 'base64')).details;
    return fromBinary(ErrorInfoSchema, any?.value ?? Buffer.alloc(0));
  }
  const inJson = /google\.rpc\.ErrorInfo",.*?"value":"([\w+/]+)"/.exec(told)?.[1];
  return inJson === undefined ? undefined : fromBinary(ErrorInfoSchema, Buffer.from(inJson, 'base64'));
}

const type = (contentType: string, more: Record<string, string> = {}) => ({ 'content-type': contentType, ...more });

describe('a request that cannot be read is refused with a reason and a request id:', () => {
  const rows: [string, string | undefined, string, Record<string, string>, Buffer][] = [
    ['broken protobuf over Connect', undefined, unary, type('application/proto'), cut],
    ['broken protobuf over a Connect stream', undefined, streamed, type('application/connect+proto'), grpcFrame(cut)],
    ['broken protobuf over gRPC-Web', undefined, unary, type('application/grpc-web+proto'), grpcFrame(cut)],
    ['broken protobuf of many', undefined, many, type('application/connect+proto'), grpcFrame(cut)],
    ['an unknown field over Connect', 'ttll', unary, type('application/json'), json],
    ['an unknown field over a Connect stream', 'ttll', streamed, type('application/connect+json'), grpcFrame(json)],
    ['an unknown field over gRPC', 'ttll', unary, type('application/grpc+json', { te: 'trailers' }), grpcFrame(json)],
    ['an unknown field over gRPC-Web', 'ttll', unary, type('application/grpc-web+json'), grpcFrame(json)],
    ['a duration that is none over Connect', 'ttl', unary, type('application/json'), Buffer.from('{"ttl":"abc"}')],
    [
      'a duration that is none over a Connect stream',
      'timeout',
      streamed,
      type('application/connect+json'),
      grpcFrame(Buffer.from('{"timeout":"abc"}')),
    ],
    [
      'a value below another one',
      'limits.disk_bytes',
      unary,
      type('application/json'),
      Buffer.from('{"limits":{"diskBytes":"x"}}'),
    ],
    ['an unknown mode', 'network.mode', unary, type('application/json'), Buffer.from('{"network":{"mode":"NO"}}')],
    ['half a message over a Connect stream', undefined, streamed, type('application/connect+proto'), half],
    ['half a message over gRPC-Web', undefined, unary, type('application/grpc-web+proto'), half],
  ];
  test.each(rows)('%s', async (_title, field, method, headers, body) => {
    const told = await answerTo(method, headers, body);
    const reason = field === undefined ? 'UNREADABLE_REQUEST' : 'INVALID_FIELD';
    const metadata = field === undefined ? {} : { field };
    expect(infoOf(told)).toMatchObject({ reason, domain: 'assay.dev', metadata });
    expect(told).toContain('x-request-id');
    expect(told).toMatch(/invalid_argument|grpc-status"?: ?"?3/);
  });
});

describe('a request that is compressed is refused with COMPRESSION_NOT_OFFERED and a request id:', () => {
  const rows: [string, string, string, Record<string, string>, Buffer][] = [
    [
      'a compressed body over Connect',
      'content-encoding',
      unary,
      type('application/json', { 'content-encoding': 'gzip' }),
      json,
    ],
    [
      'a compressed body over a Connect stream',
      'connect-content-encoding',
      streamed,
      type('application/connect+json', { 'connect-content-encoding': 'br' }),
      grpcFrame(json),
    ],
    [
      'a compressed body over gRPC-Web',
      'grpc-encoding',
      unary,
      type('application/grpc-web+json', { 'grpc-encoding': 'gzip' }),
      grpcFrame(json),
    ],
  ];
  test.each(rows)('%s', async (_title, header, method, headers, body) => {
    const told = await answerTo(method, headers, body);
    expect(infoOf(told)).toMatchObject({ reason: 'COMPRESSION_NOT_OFFERED', metadata: { header } });
    expect(told).toContain('x-request-id');
    expect(told).toMatch(/unimplemented|grpc-status"?: ?"?12/);
    expect(told).toContain('expected none');
  });
});

describe('names of any length', () => {
  const kinds: [string, string, Record<string, string>, (text: string) => Buffer][] = [
    ['over Connect', unary, type('application/json'), Buffer.from],
    ['over gRPC', unary, type('application/grpc+json', { te: 'trailers' }), (text) => grpcFrame(Buffer.from(text))],
    ['over a Connect stream', streamed, type('application/connect+json'), (text) => grpcFrame(Buffer.from(text))],
  ];
  test.each(kinds)('are refused in a short sentence %s', async (_title, method, headers, body) => {
    const told = await answerTo(method, headers, body(JSON.stringify({ ['a'.repeat(1_000_000)]: 1 })));
    expect(infoOf(told)).toMatchObject({ reason: 'INVALID_FIELD' });
    expect(told.length).toBeLessThan(8_192);
  });

  test('that repeat words of the decoder cost no more than others', async () => {
    // Searched with a pattern that goes back at each of them, this would take hours.
    const key = `${'message google.protobuf.Duration from JSON: '.repeat(80_000)}\n`;
    const told = await answerTo(unary, type('application/json'), Buffer.from(JSON.stringify({ [key]: 1 })));
    expect(infoOf(told)).toMatchObject({ reason: 'INVALID_FIELD' });
  });
});

test('a duration that is none is quoted, with the form of one', async () => {
  const told = await answerTo(unary, { 'content-type': 'application/json' }, Buffer.from('{"idleTimeout":"abc"}'));
  expect(JSON.parse(told.slice(told.indexOf('{"code"')))).toMatchObject({
    message: 'idle_timeout: found "abc"; expected seconds as text, such as "60s"',
  });
});

test('a limit that no number holds is quoted as it was given', async () => {
  const body = Buffer.from('{"limits":{"diskBytes":"9223372036854775807"}}');
  const told = await answerTo(unary, { 'content-type': 'application/json' }, body);
  expect(told).toContain('limits.disk_bytes: found 9223372036854775807 bytes');
});
