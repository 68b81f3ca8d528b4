import type { MessageInitShape } from '@bufbuild/protobuf';
import type { GetTranscriptResponseSchema } from '../../../gen/assay/v1/execution_pb.js';
import type { SessionEvent } from '../../../gen/assay/v1/session_pb.js';
import { DomainError } from '../../shared/domain-error.ts';

/** What executions did, of all that happened in a session. Throws where that cannot be read, or the one named never was. */
export async function* transcriptOf(
  events: AsyncIterable<SessionEvent>,
  { sessionId, executionId, cursor }: { sessionId: string; executionId: string; cursor: string },
): AsyncGenerator<MessageInitShape<typeof GetTranscriptResponseSchema>, void> {
  let found = executionId === '' || cursor !== '';
  for await (const { time, cursor, event } of events) {
    if (event.case === 'missing') {
      const message = `the transcript of session ${sessionId} cannot be read: ${event.value.message}`;
      throw new DomainError('TRANSCRIPT_NOT_FOUND', message, { session_id: sessionId });
    }
    if (event.case !== 'execution') continue;
    found = true;
    yield { cursor, event: event.value, ...(time && { time }) };
  }
  if (found) return;
  const names = { session_id: sessionId, execution_id: executionId };
  throw new DomainError('EXECUTION_NOT_FOUND', `no execution ${executionId} in session ${sessionId}`, names);
}
