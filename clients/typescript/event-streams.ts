import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { AttachRequestSchema, ExecuteRequestSchema, ExecutionService } from '../../gen/assay/v1/execution_pb.js';
import type { Connection } from './connection.ts';
import { createEventStream, type EventStream } from './event-stream.ts';
import { createSharedCalls } from './shared-calls.ts';

const executePath = `/${ExecutionService.typeName}/${ExecutionService.method.execute.name}`;
const attachPath = `/${ExecutionService.typeName}/${ExecutionService.method.attach.name}`;

/** Opens the calls whose answer is a stream of events. */
export interface EventStreams {
  execute(request: MessageInitShape<typeof ExecuteRequestSchema>, traceparent?: string): EventStream;
  attach(request: MessageInitShape<typeof AttachRequestSchema>): EventStream;
}

export function createEventStreams(connection: Connection): EventStreams {
  const shared = createSharedCalls(connection);
  return {
    execute(request, traceparent) {
      const message = toBinary(ExecuteRequestSchema, create(ExecuteRequestSchema, request));
      const place = traceparent ?? connection.traceparent();
      return shared.execute(message, place) ?? createEventStream(connection.request(executePath, place), message);
    },
    attach(request) {
      const message = toBinary(AttachRequestSchema, create(AttachRequestSchema, request));
      return createEventStream(connection.request(attachPath, connection.traceparent()), message);
    },
  };
}
