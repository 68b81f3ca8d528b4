import { createHash } from 'node:crypto';
import { createReadStream, statSync } from 'node:fs';
import { type BytePath, comparePaths, isPlain, toBytePath } from './byte-path.ts';
import { InvalidSubmission } from './rules.ts';
import {
  deletionsName,
  encodeDeletions,
  entryHeader,
  filesPrefix,
  markContent,
  markName,
  plainHeader,
} from './submission-format.ts';
import { blockBytes, encodeHeader, TarError, type TarHeader, typeFlags } from './tar-header.ts';
import { paddedSize, readTar, type TarEntry } from './tar-reader.ts';
import type { TreeEntry } from './tree-entry.ts';

const highWaterMark = 1024 * 1024;

const kinds: ReadonlyMap<string, 'file' | 'directory' | 'symlink'> = new Map([
  [typeFlags.file, 'file'],
  [typeFlags.directory, 'directory'],
  [typeFlags.symlink, 'symlink'],
]);

/** Told what a submission holds, in its order. */
export interface SubmissionTaker {
  /** Answers where the pieces of a regular file go; what it answers for anything else is not called. */
  entry(path: BytePath, entry: Omit<TreeEntry, 'content'>, target: BytePath): ContentTaker | undefined;
  deletion(path: BytePath): void;
}

export interface ContentTaker {
  piece(bytes: Buffer): void;
  end(): void;
}

/**
 * Reads a submission as if somebody else had written it: what is not, byte for byte, what the writer would have written is
 * refused. The digest comes first, so that a damaged file is never taken for the agent's doing.
 */
export async function readSubmission(
  file: string,
  digest: string,
  deletionsLimit: number,
  taker: SubmissionTaker,
): Promise<void> {
  await expectDigest(file, digest);
  const stream = createReadStream(file, { highWaterMark });
  try {
    const length = await readEntries(stream as AsyncIterable<Buffer>, deletionsLimit, taker);
    if (statSync(file).size !== length) throw malformed('', 'something comes after the end');
  } catch (error) {
    if (error instanceof TarError) throw malformed('', error.message);
    throw error;
  } finally {
    // Whoever stops reading at the end of the archive, or before, leaves the file open.
    stream.destroy();
  }
}

async function expectDigest(file: string, digest: string): Promise<void> {
  const hash = createHash('sha256');
  for await (const piece of createReadStream(file, { highWaterMark })) hash.update(piece as Buffer);
  const found = `sha256:${hash.digest('hex')}`;
  if (found !== digest) throw new Error(`the stored submission has the digest ${found}; expected ${digest}`);
}

/** Returns how long the archive is. */
async function readEntries(
  stream: AsyncIterable<Buffer>,
  deletionsLimit: number,
  taker: SubmissionTaker,
): Promise<number> {
  const order = createOrder();
  let stage: 'mark' | 'files' | 'end' = 'mark';
  let length = 2 * blockBytes;
  for await (const entry of readTar(stream)) {
    const { name, size } = entry.header;
    length += entry.headerBytes.length + paddedSize(size);
    if (stage === 'mark' && name === markName) {
      const body = await wholeBody(entry, markContent.length);
      expectSame(body, markContent, entry, plainHeader(markName, markContent.length));
      stage = 'files';
    } else if (stage === 'files' && name.startsWith(filesPrefix)) {
      await takeEntry(entry, order, taker);
    } else if (stage === 'files' && name === deletionsName) {
      await takeDeletions(entry, deletionsLimit, taker);
      stage = 'end';
    } else throw malformed(name, 'an entry that a submission does not have here');
  }
  if (stage !== 'end') throw malformed('', 'the list of deletions is missing');
  return length;
}

async function takeEntry(read: TarEntry, order: (path: BytePath) => void, taker: SubmissionTaker): Promise<void> {
  const { header } = read;
  const path = header.name.slice(filesPrefix.length);
  const kind = kinds.get(header.type);
  if (kind === undefined) throw new InvalidSubmission('SPECIAL_FILE', path, `an entry of type "${header.type}"`);
  if (!isPlain(path)) throw malformed(path, 'a path that could leave the working directory');
  const entry = { kind, mode: header.mode, uid: header.uid, gid: header.gid, size: header.size };
  if (kind !== 'file' && header.size !== 0) throw malformed(path, 'a body where none belongs');
  order(path);
  // Before the comparison of bytes, which would refuse such a mode as well, in words that say less.
  const content = taker.entry(path, entry, header.linkName);
  expectHeader(read, entryHeader(path, entry, header.linkName));
  await read.body((piece) => content?.piece(piece));
  content?.end();
}

async function takeDeletions(read: TarEntry, limit: number, taker: SubmissionTaker): Promise<void> {
  const body = await wholeBody(read, limit);
  const paths = toBytePath(body).split('\0').slice(0, -1);
  expectSame(body, encodeDeletions(paths), read, plainHeader(deletionsName, body.length));
  const order = createOrder();
  for (const path of paths) {
    if (!isPlain(path)) throw malformed(path, 'a path that could leave the working directory');
    order(path);
    taker.deletion(path);
  }
}

async function wholeBody(read: TarEntry, limit: number): Promise<Buffer> {
  if (read.header.size > limit) throw malformed(read.header.name, `a body of more than ${limit} bytes`);
  const pieces: Buffer[] = [];
  await read.body((piece) => pieces.push(piece));
  return Buffer.concat(pieces);
}

/** Each path comes after the one before it, so none comes twice. */
function createOrder(): (path: BytePath) => void {
  let last: BytePath = '';
  return (path) => {
    if (comparePaths(last, path) >= 0) throw malformed(path, 'a path out of order');
    last = path;
  };
}

function expectSame(body: Buffer, expected: Buffer, read: TarEntry, header: TarHeader): void {
  if (!body.equals(expected)) throw malformed(read.header.name, 'not what a submission has here');
  expectHeader(read, header);
}

function expectHeader(read: TarEntry, header: TarHeader): void {
  if (!read.headerBytes.equals(encodeHeader(header))) throw malformed(read.header.name, 'a header in another form');
}

function malformed(path: BytePath, said: string): InvalidSubmission {
  return new InvalidSubmission('MALFORMED', path, said);
}
