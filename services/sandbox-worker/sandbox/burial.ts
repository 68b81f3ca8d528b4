import { timestampMs } from '@bufbuild/protobuf/wkt';
import type { SessionRecord } from '../../../gen/assay/internal/v1/records_pb.js';
import { TranscriptState } from '../../../gen/assay/v1/session_pb.js';
import type { EndCause, LossReason, TranscriptOutcome } from '../../shared/session-state.ts';
import type { Archive } from '../log/archive.ts';
import type { RecordKeeper } from './record-keeper.ts';
import type { Sandbox } from './sandbox.ts';
import type { SandboxMaker } from './sandbox-maker.ts';
import type { Slot, Slots } from './slot.ts';

export interface BurialDeps {
  readonly maker: SandboxMaker;
  readonly records: RecordKeeper;
  readonly archive: Archive;
  readonly slots: Slots;
}

/** Who ends a session waits no longer than this for its transcript; the caretaker stores it later. */
const endingMs = 20_000;

export type Ending = { type: 'closed' } | { type: 'lost'; endReason: LossReason; message: string };

/**
 * The end of sandboxes: everything is removed, the log is archived, the end is recorded, and the directory goes last of
 * all. A worker that dies in between finds the record or the directory, and goes on from there.
 */
export interface Burial {
  close(sandbox: Sandbox, message: string): Promise<void>;
  fail(sandbox: Sandbox, why: EndCause): Promise<void>;
  /** What another worker left, or this one when the archive could not take it: its directory alone, or not even that. */
  finish(record: SessionRecord, end?: Ending): Promise<void>;
}

export function createBurial({ maker, records, archive, slots }: BurialDeps): Burial {
  /** A log that must wait for the archive keeps its directory. */
  function removeSlot(slot: Slot, transcript: TranscriptOutcome): void {
    if (transcript.state !== TranscriptState.PENDING) slot.remove();
  }

  async function archived(sandbox: Sandbox): Promise<TranscriptOutcome> {
    const { project, sessionId } = sandbox;
    return archive.keep({ project, sessionId, endedMs: Date.now(), open: () => sandbox.completeLog() }, endingMs);
  }

  return {
    async close(sandbox, message) {
      const { project, sessionId, slot } = sandbox;
      await maker.end(sandbox, message);
      const transcript = await archived(sandbox);
      await records.put(project, sessionId, { type: 'closed', atMs: Date.now(), transcript });
      removeSlot(slot, transcript);
    },
    async fail(sandbox, why) {
      const { project, sessionId, slot } = sandbox;
      const pending = { state: TranscriptState.PENDING, message: 'the sandbox is being removed' };
      await records.put(project, sessionId, { type: 'failed', ...why, atMs: Date.now(), transcript: pending });
      await maker.end(sandbox, why.message);
      const transcript = await archived(sandbox);
      await records.put(project, sessionId, { type: 'transcript', transcript });
      removeSlot(slot, transcript);
    },
    async finish({ project, session }, end) {
      if (session === undefined) return;
      const { sessionId, endTime } = session;
      const slot = slots.open(sessionId);
      const open = () => maker.remains(slot, 'the sandbox was gone when its worker came back');
      const endedMs = endTime === undefined ? Date.now() : timestampMs(endTime);
      const ended = { project, sessionId, endedMs, open };
      const transcript = await (end === undefined ? archive.keep(ended) : archive.keep(ended, endingMs));
      const event = end === undefined ? { type: 'transcript' as const } : { ...end, atMs: Date.now() };
      await records.put(project, sessionId, { ...event, transcript });
      removeSlot(slot, transcript);
    },
  };
}
