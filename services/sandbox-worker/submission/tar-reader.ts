import { blockBytes, decodeBlock, decodeRecords, TarError, type TarHeader, withRecords } from './tar-header.ts';

/** The extended headers of an entry hold a few names; anything larger, all together, is an attack on our memory. */
const recordsLimit = 1024 * 1024;

/** One entry while it is being read: its body must be taken before the next entry is asked for, or it is skipped. */
export interface TarEntry {
  readonly header: TarHeader;
  /** The bytes that were the header, extended ones included. */
  readonly headerBytes: Buffer;
  /** Gives the body in pieces. A piece is valid during the call only. */
  body(take: (piece: Buffer) => void): Promise<void>;
}

/** Reads a tar stream entry by entry; names stay bytes, and memory stays small whatever the stream says. */
export async function* readTar(stream: AsyncIterable<Buffer>): AsyncGenerator<TarEntry, void> {
  const bytes = createByteReader(stream);
  let records = new Map<string, string>();
  let before: Buffer[] = [];
  let beforeBytes = 0;
  for (;;) {
    const block = await bytes.exactly(blockBytes);
    const raw = decodeBlock(block);
    if (raw === undefined) return;
    if ('xgLK'.includes(raw.type)) {
      beforeBytes += blockBytes + paddedSize(raw.size);
      if (beforeBytes > recordsLimit)
        throw new TarError(`${beforeBytes} bytes of tar headers before an entry; expected at most ${recordsLimit}`);
      const padded = await bytes.exactly(paddedSize(raw.size));
      const body = padded.subarray(0, raw.size);
      if (raw.type === 'x') for (const [key, value] of decodeRecords(body)) records.set(key, value);
      else if (raw.type !== 'g') records.set(raw.type === 'L' ? 'path' : 'linkpath', cString(body));
      before.push(block, padded);
      continue;
    }
    const header = withRecords(raw, records);
    const headerBytes = Buffer.concat([...before, block]);
    [records, before, beforeBytes] = [new Map(), [], 0];
    let taken = false;
    const take = async (each: (piece: Buffer) => void): Promise<void> => {
      taken = true;
      await bytes.pass(header.size, each);
      await bytes.pass(paddedSize(header.size) - header.size, expectZeros);
    };
    yield { header, headerBytes, body: take };
    if (!taken) await take(() => {});
  }
}

function expectZeros(piece: Buffer): void {
  if (piece.some((byte) => byte !== 0)) throw new TarError('a tar stream has something between two entries');
}

export function paddedSize(size: number): number {
  return Math.ceil(size / blockBytes) * blockBytes;
}

function cString(body: Buffer): string {
  const end = body.indexOf(0);
  return body.toString('latin1', 0, end < 0 ? body.length : end);
}

function createByteReader(stream: AsyncIterable<Buffer>) {
  const pieces = stream[Symbol.asyncIterator]();
  let held: Buffer = Buffer.alloc(0);
  const pass = async (count: number, each: (piece: Buffer) => void): Promise<void> => {
    for (let left = count; left > 0; ) {
      if (held.length === 0) {
        const next = await pieces.next();
        if (next.done) throw new TarError('a tar stream ends in the middle of an entry');
        held = next.value;
        continue;
      }
      const piece = held.subarray(0, left);
      held = held.subarray(piece.length);
      left -= piece.length;
      each(piece);
    }
  };
  return {
    pass,
    async exactly(count: number): Promise<Buffer> {
      const found: Buffer[] = [];
      await pass(count, (piece) => found.push(piece));
      return found.length === 1 ? (found[0] as Buffer) : Buffer.concat(found);
    },
  };
}
