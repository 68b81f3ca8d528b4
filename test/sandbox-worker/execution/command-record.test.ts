import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { sizeDelimitedDecodeStream } from '@bufbuild/protobuf/wire';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { describe, expect, test } from 'vitest';
import { type JournalRecord, JournalRecordSchema } from '../../../gen/assay/internal/v1/journal_pb.js';
import {
  EndReason,
  ExecuteRequestSchema,
  ExecuteResponseSchema,
  ExecutionResultSchema,
} from '../../../gen/assay/v1/execution_pb.js';
import {
  encodeAccepted,
  encodeDrained,
  encodeFinished,
  encodeSent,
  finishedFrame,
  startedFrame,
} from '../../../services/sandbox-worker/execution/command-record.ts';

const ms = 1_763_300_000_123;
const largest = 2n ** 53n - 1n;

async function decoded(...encoded: Uint8Array[]): Promise<JournalRecord[]> {
  const stream = (async function* () {
    yield Buffer.concat(encoded);
  })();
  return await Array.fromAsync(sizeDelimitedDecodeStream(JournalRecordSchema, stream));
}

function record(number: bigint, value: object): JournalRecord {
  return create(JournalRecordSchema, { number, record: value } as never) as JournalRecord;
}

const request = (command: string) =>
  create(ExecuteRequestSchema, { sessionId: 's', executionId: 'e', program: { case: 'command', value: command } });

const result = create(ExecutionResultSchema, { reason: EndReason.EXITED, exitCode: 3, stdoutBytes: 7n, message: 'ü' });

describe('a record of a command', () => {
  test.each(['true', 'x'.repeat(100), 'y'.repeat(1_000_000)])('accepted is what protobuf decodes', async (command) => {
    const given = request(command);
    const bytes = toBinary(ExecuteRequestSchema, given);
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    const direct = { number: 5n, request: bytes, ms, traceparent, nest: 65_535, guestNumber: largest };
    const inShell = { number: largest, request: bytes, ms: 0, traceparent: '', nest: 0, guestNumber: 0n };
    expect(await decoded(encodeAccepted(direct), encodeAccepted(inShell))).toEqual([
      record(5n, {
        case: 'accepted',
        value: { request: given, time: timestampFromMs(ms), traceparent, nest: 65_535, guestNumber: largest },
      }),
      record(largest, { case: 'accepted', value: { request: given, time: timestampFromMs(0) } }),
    ]);
  });

  test('sent is what protobuf decodes', async () => {
    const sent = { number: 1n, guestNumber: 300n, ms, shellOpened: 2, cpuMicros: 2 ** 40, oomKills: 1 };
    expect(await decoded(encodeSent(sent))).toEqual([
      record(1n, {
        case: 'sent',
        value: {
          guestNumber: 300n,
          time: timestampFromMs(ms),
          shellOpenCount: 2,
          cpuMicros: BigInt(2 ** 40),
          oomKillCount: 1,
        },
      }),
    ]);
  });

  test('finished and drained are what protobuf decodes, whether it ran or not', async () => {
    expect(
      await decoded(
        encodeFinished(9n, result, ms),
        encodeFinished(9n, result, undefined),
        encodeDrained(9n, 0, 2 ** 53 - 1),
      ),
    ).toEqual([
      record(9n, { case: 'finished', value: { result, startTime: timestampFromMs(ms) } }),
      record(9n, { case: 'finished', value: { result } }),
      record(9n, { case: 'drained', value: { stdoutBytes: 0n, stderrBytes: largest } }),
    ]);
  });
});

describe('a frame of a command', () => {
  test('is the event that protobuf decodes, with its length before it', () => {
    for (const [frame, event] of [
      [startedFrame('exe_ü', ms), { case: 'started', value: { executionId: 'exe_ü', startTime: timestampFromMs(ms) } }],
      [finishedFrame(result), { case: 'finished', value: { result } }],
    ] as const) {
      expect(frame.readUInt32BE(1)).toBe(frame.length - 5);
      const expected = create(ExecuteResponseSchema, { event: { event } } as never);
      expect(fromBinary(ExecuteResponseSchema, frame.subarray(5))).toEqual(expected);
    }
  });
});
