const headerBytes = 8;
const stderrMark = 2;

export interface OutputTakers {
  stdout(data: Buffer): void;
  stderr(data: Buffer): void;
}

/**
 * Takes the engine's stream apart: a byte that says which stream, three of nothing, four of length, the data. Frame by
 * frame and not one within the other, as the client's own way does it: a program that writes byte by byte fills a chunk
 * with thousands of them, and that would overflow the stack. A piece is valid during the call only.
 */
export function createDemuxer({ stdout, stderr }: OutputTakers): (chunk: Buffer) => void {
  let header: Buffer = Buffer.alloc(0);
  let mark = 0;
  let left = 0;
  return (chunk) => {
    const data = header.length === 0 ? chunk : Buffer.concat([header, chunk]);
    header = Buffer.alloc(0);
    for (let at = 0; at < data.length; ) {
      if (left > 0) {
        const piece = data.subarray(at, at + left);
        at += piece.length;
        left -= piece.length;
        if (mark === stderrMark) stderr(piece);
        else stdout(piece);
      } else if (data.length - at < headerBytes) {
        header = Buffer.from(data.subarray(at));
        return;
      } else {
        mark = data.readUInt8(at);
        left = data.readUInt32BE(at + 4);
        at += headerBytes;
      }
    }
  };
}
