import { createHash } from 'node:crypto';
import type { SessionEvent } from '../../clients/typescript/index.ts';

/** What a reader made of the events of a session. Throws where a byte is missing or comes twice. */
export interface ReadLog {
  /** Everything but output and heartbeats, in a few words each. */
  readonly words: string[];
  readonly gaps: { executionId: string; stream: string; startOffset: number; endOffset: number }[];
  readonly cursors: string[];
  add(event: SessionEvent): void;
  data(executionId: string, stream: 'stdout' | 'stderr'): Buffer;
  /** How long a stream was, gaps included. */
  length(executionId: string, stream: 'stdout' | 'stderr'): number;
  /** One line for each stream, to compare readers by. */
  digest(): string[];
}

export function createReadLog(): ReadLog {
  const words: string[] = [];
  const gaps: ReadLog['gaps'] = [];
  const cursors: string[] = [];
  const streams = new Map<string, { next: number; parts: Uint8Array[] }>();

  function advance(executionId: string, stream: string, from: number, to: number) {
    const key = `${executionId}.${stream}`;
    const found = streams.get(key) ?? { next: 0, parts: [] };
    streams.set(key, found);
    if (from !== found.next) throw new Error(`${key} goes on at ${from}, expected ${found.next}`);
    found.next = to;
    return found;
  }

  const data: ReadLog['data'] = (id, stream) => Buffer.concat(streams.get(`${id}.${stream}`)?.parts ?? []);
  return {
    words,
    gaps,
    cursors,
    data,
    length: (id, stream) => streams.get(`${id}.${stream}`)?.next ?? 0,
    add(event) {
      if (event.type === 'heartbeat') return;
      cursors.push(event.cursor);
      if (event.type === 'state') words.push(`${event.state}${event.paused ? ' paused' : ''}`);
      else if (event.type === 'missing') words.push('missing');
      else if (event.type === 'verification') words.push(`${event.verificationId} ${event.state}`);
      else if (event.type === 'shell') words.push(`${event.shellId} ${event.change}`);
      else if (event.type === 'gap') {
        const { executionId, stream, startOffset, endOffset } = event;
        advance(executionId, stream, startOffset, endOffset);
        gaps.push({ executionId, stream, startOffset, endOffset });
      } else if (event.type === 'stdout' || event.type === 'stderr') {
        const { executionId, type, offset } = event;
        advance(executionId, type, offset, offset + event.data.length).parts.push(event.data);
      } else words.push(`${event.executionId} ${event.type}`);
    },
    digest: () =>
      [...streams.keys()].sort().map((key) => {
        const { next, parts } = streams.get(key) ?? { next: 0, parts: [] };
        return `${key} ${next} ${createHash('sha256').update(Buffer.concat(parts)).digest('hex')}`;
      }),
  };
}

export async function readAll(events: AsyncIterable<SessionEvent>): Promise<ReadLog> {
  const log = createReadLog();
  for await (const event of events) log.add(event);
  return log;
}
