import type { BytePath } from './byte-path.ts';

export const blockBytes = 512;
/** What a header of seven octal digits can hold. */
export const largestOwner = 0o7777777;
const largestOctalSize = 0o77777777777;
const nameBytes = 100;
export const typeFlags = { file: '0', hardLink: '1', symlink: '2', directory: '5', extended: 'x' } as const;

/** A stream that is no tar. */
export class TarError extends Error {}

/** The header of one entry, names as bytes. */
export interface TarHeader {
  readonly name: BytePath;
  readonly type: string;
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  readonly size: number;
  readonly linkName: BytePath;
}

/** A header that says when its file was written, in seconds; those of submissions never do. */
export interface TimedHeader extends TarHeader {
  readonly mtime?: number;
}

/**
 * The one way in which a submission writes a header: ustar, no times, no names of owners; what does not fit goes into an
 * extended header before it. The same header is the same bytes.
 */
export function encodeHeader(header: TimedHeader): Buffer {
  const records: string[] = [];
  const short = (key: string, value: string): string => {
    if (value.length <= nameBytes) return value;
    records.push(record(key, value));
    return '';
  };
  const name = short('path', header.name);
  const linkName = short('linkpath', header.linkName);
  if (header.size > largestOctalSize) records.push(record('size', String(header.size)));
  const size = header.size > largestOctalSize ? 0 : header.size;
  const block = encodeBlock({ ...header, name, linkName, size });
  if (records.length === 0) return block;
  const body = Buffer.from(records.join(''), 'latin1');
  const extended = { name: 'extended', type: typeFlags.extended, mode: 0, uid: 0, gid: 0, linkName: '' };
  return Buffer.concat([encodeBlock({ ...extended, size: body.length }), body, padding(body.length), block]);
}

export function padding(size: number): Buffer {
  return Buffer.alloc((blockBytes - (size % blockBytes)) % blockBytes);
}

function encodeBlock({ name, type, mode, uid, gid, size, linkName, mtime = 0 }: TimedHeader): Buffer {
  const block = Buffer.alloc(blockBytes);
  block.write(name, 0, 'latin1');
  block.write(
    `${octal(mode, 7)}\0${octal(uid, 7)}\0${octal(gid, 7)}\0${octal(size, 11)}\0${octal(mtime, 11)}\0`,
    100,
    'latin1',
  );
  block.write(type, 156, 'latin1');
  block.write(linkName, 157, 'latin1');
  block.write('ustar\x0000', 257, 'latin1');
  block.write(`${octal(0, 7)}\0${octal(0, 7)}\0`, 329, 'latin1');
  block.write(`${octal(checksum(block), 6)}\0 `, 148, 'latin1');
  return block;
}

function octal(value: number, digits: number): string {
  return value.toString(8).padStart(digits, '0');
}

/** The length of a record counts its own digits. */
function record(key: string, value: string): string {
  const rest = key.length + value.length + 3;
  let length = rest + String(rest).length;
  if (String(length).length > String(rest).length) length = rest + String(length).length;
  return `${length} ${key}=${value}\n`;
}

function checksum(block: Buffer): number {
  let sum = 8 * 0x20;
  for (let at = 0; at < blockBytes; at += 1) if (at < 148 || at >= 156) sum += block[at] as number;
  return sum;
}

/** Reads a header block of ustar, PAX or GNU tar; undefined for the block of zeros at the end. */
export function decodeBlock(block: Buffer): TarHeader | undefined {
  if (block.every((byte) => byte === 0)) return undefined;
  if (number(block, 148, 8) !== checksum(block)) throw new TarError('a tar header has a wrong checksum');
  const isUstar = block.toString('latin1', 257, 263) === 'ustar\0';
  const prefix = isUstar ? text(block, 345, 155) : '';
  const name = text(block, 0, 100);
  return {
    name: prefix === '' ? name : `${prefix}/${name}`,
    type: block[156] === 0 ? typeFlags.file : String.fromCharCode(block[156] as number),
    mode: number(block, 100, 8) & 0o7777,
    uid: number(block, 108, 8),
    gid: number(block, 116, 8),
    size: number(block, 124, 12),
    linkName: text(block, 157, 100),
  };
}

/** The header with what the records before it say. */
export function withRecords(header: TarHeader, records: ReadonlyMap<string, string>): TarHeader {
  const whole = (key: string, otherwise: number): number => {
    const said = records.get(key);
    if (said === undefined) return otherwise;
    if (!/^\d{1,15}$/.test(said))
      throw new TarError(`a tar record has the ${key} ${said.slice(0, 40)}; expected a number`);
    return Number(said);
  };
  return {
    ...header,
    name: records.get('path') ?? header.name,
    linkName: records.get('linkpath') ?? header.linkName,
    size: whole('size', header.size),
    uid: whole('uid', header.uid),
    gid: whole('gid', header.gid),
  };
}

export function decodeRecords(body: Buffer): Map<string, string> {
  const records = new Map<string, string>();
  for (let at = 0; at < body.length; ) {
    const space = body.indexOf(0x20, at);
    const length = space < 0 ? Number.NaN : Number(body.toString('latin1', at, space));
    const line = body.toString('latin1', space + 1, at + length - 1);
    const equals = line.indexOf('=');
    if (!(length > 0) || at + length > body.length || equals < 0) throw new TarError('a tar record is malformed');
    records.set(line.slice(0, equals), line.slice(equals + 1));
    at += length;
  }
  return records;
}

function text(block: Buffer, at: number, length: number): string {
  const field = block.toString('latin1', at, at + length);
  const end = field.indexOf('\0');
  return end < 0 ? field : field.slice(0, end);
}

function number(block: Buffer, at: number, length: number): number {
  // GNU tar writes what octal digits cannot hold as bytes behind a set bit.
  if (((block[at] as number) & 0x80) !== 0) {
    const value = block.subarray(at + 1, at + length).reduce((sum, byte) => sum * 256 + byte, 0);
    if (!Number.isSafeInteger(value)) throw new TarError('a tar header has a number out of range');
    return value;
  }
  const digits = text(block, at, length).trim();
  if (!/^[0-7]*$/.test(digits)) throw new TarError('a tar header has a malformed number');
  return digits === '' ? 0 : Number.parseInt(digits, 8);
}
