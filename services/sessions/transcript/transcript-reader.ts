import { sizeDelimitedDecodeStream } from '@bufbuild/protobuf/wire';
import { type SessionEvent, SessionEventSchema } from '../../../gen/assay/v1/session_pb.js';
import { gapIn, isAfter, joinedGap, type LogPlace, parsePlace, withoutTold } from './log-place.ts';

/** What is wanted of a log. */
export interface LogSelection {
  readonly withoutOutput: boolean;
  /** Only this execution's events. Empty: all. */
  readonly executionId: string;
}

/** The events of an archived log after a place in it, one at a time as the reader takes them. All of them are seen on the way. */
export async function* readTranscript(
  pieces: AsyncIterable<Uint8Array>,
  from: LogPlace,
  selection: LogSelection,
  see: (event: SessionEvent) => void = () => {},
  turn: () => Promise<void> | undefined = () => undefined,
): AsyncGenerator<SessionEvent, void> {
  // The archive may be cut into pieces differently from what was told live: the first one may be told in part.
  let inside = from.offset > 0;
  let gap: SessionEvent | undefined;
  for await (const stored of sizeDelimitedDecodeStream(SessionEventSchema, pieces)) {
    see(stored);
    const wait = turn();
    if (wait !== undefined) await wait;
    if (!isAfter(parsePlace(stored.cursor), from)) continue;
    const event = inside ? withoutTold(stored, from.offset) : stored;
    if (event === undefined) continue;
    inside = false;
    if (!isWanted(event, selection)) continue;
    const joined = gap === undefined ? undefined : joinedGap(gap, event);
    if (gap !== undefined && joined === undefined) yield gap;
    gap = joined ?? (gapIn(event) === undefined ? undefined : event);
    if (gap === undefined) yield event;
  }
  if (gap !== undefined) yield gap;
}

function isWanted({ event }: SessionEvent, { withoutOutput, executionId }: LogSelection): boolean {
  if (event.case === 'missing') return true;
  if (event.case !== 'execution') return executionId === '';
  if (executionId !== '' && event.value.executionId !== executionId) return false;
  const what = event.value.event.case;
  return !withoutOutput || (what !== 'stdout' && what !== 'stderr' && what !== 'gap');
}
