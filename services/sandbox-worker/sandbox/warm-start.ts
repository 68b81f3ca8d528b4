import { create } from '@bufbuild/protobuf';
import { type SessionRecord, SessionRecordSchema } from '../../../gen/assay/events/v1/records_pb.js';
import { advance } from '../../shared/session-state.ts';
import type { SandboxImage } from '../docker/engine.ts';
import { environmentOf } from './environment.ts';
import { limitsOf, type Sandbox } from './sandbox.ts';

/**
 * Makes a sandbox of the pool the session's own and returns the record that says so. From here on a slot of the session's
 * name owns the container: a worker that dies before the record is written finds none for it, and removes both.
 */
export function giveTo(
  sandbox: Sandbox,
  { project, session, ...rest }: SessionRecord,
  image: SandboxImage,
  env: Readonly<Record<string, string>>,
): SessionRecord {
  if (session === undefined) throw new TypeError('a session record without a session');
  const { sessionId } = session;
  Object.assign(sandbox.file, { project, sessionId, env: environmentOf(image, env) });
  sandbox.slot.save(sandbox.file);
  sandbox.slot.moveTo(sessionId);
  const ready = advance(session, { type: 'ready', limits: limitsOf(sandbox), warm: true });
  return create(SessionRecordSchema, { ...rest, project, session: ready ?? session });
}
