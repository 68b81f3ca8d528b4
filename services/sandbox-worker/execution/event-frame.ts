import { create, toBinary } from '@bufbuild/protobuf';
import {
  type ExecuteResponse,
  ExecuteResponseSchema,
  type ExecutionEvent,
} from '../../../gen/assay/v1/execution_pb.js';
import { grpcFrame } from '../../shared/grpc-frame.ts';
import type { Stream } from '../guest/frame.ts';

/**
 * Events as gRPC frames. Output is encoded by hand around the bytes, which are never copied; Execute and Attach answer
 * with the same shape, in the worker's API and in the public one, so one frame serves all four.
 */
export function eventFrame(event: ExecutionEvent['event']): Buffer {
  const response: ExecuteResponse = create(ExecuteResponseSchema, { event: { event } });
  return grpcFrame(toBinary(ExecuteResponseSchema, response));
}

/** What stands before the bytes of an Output event: gRPC's prefix and the protobuf tags and lengths. */
export function outputHead(stream: Stream, offset: number, dataBytes: number): Buffer {
  // Output { offset = 1; data = 2 } in ExecutionEvent { stdout = 2; stderr = 3 } in ExecuteResponse { event = 1 }.
  const offsetBytes = offset === 0 ? 0 : 1 + varintBytes(offset);
  const output = offsetBytes + 1 + varintBytes(dataBytes) + dataBytes;
  const event = 1 + varintBytes(output) + output;
  const response = 1 + varintBytes(event) + event;
  const head = Buffer.allocUnsafe(5 + response - dataBytes);
  head[0] = 0;
  head.writeUInt32BE(response, 1);
  let at = 5;
  head[at++] = 0x0a;
  at = writeVarint(head, at, event);
  head[at++] = stream === 1 ? 0x12 : 0x1a;
  at = writeVarint(head, at, output);
  if (offset !== 0) {
    head[at++] = 0x08;
    at = writeVarint(head, at, offset);
  }
  head[at++] = 0x12;
  writeVarint(head, at, dataBytes);
  return head;
}

function varintBytes(value: number): number {
  let bytes = 1;
  for (let rest = value; rest >= 128; rest = Math.floor(rest / 128)) bytes++;
  return bytes;
}

function writeVarint(buffer: Buffer, at: number, value: number): number {
  let rest = value;
  let position = at;
  for (; rest >= 128; rest = Math.floor(rest / 128)) buffer[position++] = (rest % 128) | 0x80;
  buffer[position++] = rest;
  return position;
}
