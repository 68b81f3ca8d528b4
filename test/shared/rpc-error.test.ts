import { fromBinary } from '@bufbuild/protobuf';
import { anyUnpack, durationMs } from '@bufbuild/protobuf/wkt';
import { Code, ConnectError } from '@connectrpc/connect';
import { expect, test } from 'vitest';
import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from '../../gen/google/rpc/error_details_pb.js';
import { StatusSchema } from '../../gen/google/rpc/status_pb.js';
import { DomainError } from '../../services/shared/domain-error.ts';
import { type Reason, reasons, retryMsOf } from '../../services/shared/error-reason.ts';
import { fromConnectError, fromStatus, toConnectError, toStatus } from '../../services/shared/rpc-error.ts';

const travelling = (error: DomainError) => toConnectError(error, () => {});

test.each(Object.keys(reasons) as Reason[])(
  '%s travels with its reason, and with a delay where it has one',
  (reason) => {
    const error = travelling(new DomainError(reason, 'words'));
    expect(error.findDetails(ErrorInfoSchema)).toMatchObject([{ reason, domain: 'assay.dev' }]);
    const delays = error.findDetails(RetryInfoSchema).map(({ retryDelay }) => retryDelay && durationMs(retryDelay));
    expect(delays).toEqual(retryMsOf(reason) === undefined ? [] : [retryMsOf(reason)]);
    expect(fromConnectError(error)).toMatchObject({ reason, message: 'words', code: reasons[reason].code });
    expect(fromStatus(toStatus(error), 'words')).toMatchObject({ reason, message: 'words' });
  },
);

test('a field that is not valid is a violation of that field', () => {
  const error = travelling(new DomainError('LIMIT_EXCEEDED', 'env: too many', { field: 'env', limit: '7' }));
  const [violated] = error.findDetails(BadRequestSchema);
  expect(violated?.fieldViolations).toMatchObject([
    { field: 'env', description: 'env: too many', reason: 'LIMIT_EXCEEDED' },
  ]);
});

test('a precondition that names a field is no violation of the field', () => {
  const error = travelling(new DomainError('NETWORK_NOT_OFFERED', 'words', { field: 'network.mode' }));
  expect(error.findDetails(BadRequestSchema)).toEqual([]);
});

test('a status holds every detail of its error, also of one that was received', () => {
  const error = travelling(new DomainError('SHELL_QUEUE_FULL', 'words', { limit: '7' }));
  const received = new ConnectError('words', Code.ResourceExhausted);
  received.details = fromBinary(StatusSchema, toStatus(error)).details.map(({ typeUrl, value }) => ({
    type: typeUrl.slice(typeUrl.lastIndexOf('/') + 1),
    value,
  }));
  expect(toStatus(received)).toEqual(toStatus(error));
  const { code, message, details } = fromBinary(StatusSchema, toStatus(error));
  expect([code, message]).toEqual([Code.ResourceExhausted, 'words']);
  expect(details.map((any) => anyUnpack(any, ErrorInfoSchema) ?? anyUnpack(any, RetryInfoSchema))).toMatchObject([
    { reason: 'SHELL_QUEUE_FULL', metadata: { limit: '7' } },
    { retryDelay: { seconds: 1n, nanos: 0 } },
  ]);
});

test('bytes that are no status name no reason', () => {
  expect(fromStatus(Buffer.from([0xff]), 'words')).toBeUndefined();
});
