import { type IncomingMessage, request } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

/** A container whose files are reached through its engine. */
export interface ArchivedContainer {
  readonly socketPath: string;
  readonly containerId: string;
}

/** Files of a container by the engine's archive calls, in any of its states; it takes no root. Paths are bytes (latin1), from the root. */
export interface ArchivedFiles {
  /** What is there itself, no link followed in its last part; undefined: nothing. */
  kind(path: string): Promise<'directory' | 'other' | undefined>;
  /** A tar stream of what is there, whose names begin with the last part of the path; undefined: nothing is. */
  read<T>(path: string, use: (tar: AsyncIterable<Buffer>) => Promise<T>): Promise<T | undefined>;
  /** Unpacks a tar stream in a directory. What is in the way is replaced; a directory that is one already stays, with what is in it. */
  write(path: string, tar: AsyncIterable<Buffer>): Promise<void>;
}

/** The bit of a Go file mode that tells a directory. */
const directoryBit = 2 ** 31;
const saidBytes = 4_096;

/** Without dockerode, so that a thread which never needs it need not load it. */
export function openArchivedFiles({ socketPath, containerId }: ArchivedContainer): ArchivedFiles {
  const ask = async (method: string, path: string, body?: AsyncIterable<Buffer>): Promise<IncomingMessage> => {
    const asked = request({ socketPath, method, path: `/containers/${containerId}/archive?path=${escaped(path)}` });
    const answer = new Promise<IncomingMessage>((resolve, reject) => asked.on('response', resolve).on('error', reject));
    if (body === undefined) asked.end();
    else {
      asked.setHeader('content-type', 'application/x-tar');
      // The engine may answer, and hang up, before it has read all: then its answer tells why.
      await pipeline(Readable.from(body, { objectMode: false }), asked).catch((error: unknown) => {
        answer.catch(() => {});
        if (!isHangUp(error)) throw error;
      });
    }
    return answer;
  };
  const found = async (answer: IncomingMessage): Promise<boolean> => {
    const { statusCode = 0 } = answer;
    if (statusCode === 200) return true;
    const said = await textOf(answer);
    if (statusCode === 404 && !/No such container/i.test(said)) return false;
    throw failure(statusCode, said);
  };
  return {
    async kind(path) {
      const answer = await ask('HEAD', path);
      answer.resume();
      if (!(await found(answer))) return undefined;
      const stat = Buffer.from(String(answer.headers['x-docker-container-path-stat']), 'base64').toString();
      const { mode } = JSON.parse(stat) as { mode: number };
      return Math.floor(mode / directoryBit) % 2 === 1 ? 'directory' : 'other';
    },
    async read(path, use) {
      const answer = await ask('GET', path);
      try {
        return (await found(answer)) ? await use(answer) : undefined;
      } finally {
        answer.destroy();
      }
    },
    async write(path, tar) {
      const answer = await ask('PUT', path, tar);
      if (!(await found(answer))) throw new Error(`the container has no directory /${path}`);
      answer.resume();
    },
  };
}

/** Byte by byte: a path need not be UTF-8. */
function escaped(path: string): string {
  return Buffer.from(`/${path}`, 'latin1').reduce((text, byte) => `${text}%${byte.toString(16).padStart(2, '0')}`, '');
}

function isHangUp(error: unknown): boolean {
  return ['EPIPE', 'ECONNRESET', 'ERR_STREAM_PREMATURE_CLOSE'].includes((error as NodeJS.ErrnoException).code ?? '');
}

async function textOf(answer: IncomingMessage): Promise<string> {
  let text = '';
  for await (const piece of answer) if (text.length < saidBytes) text += String(piece);
  return text;
}

/** A full disk is told as the kernel would. */
function failure(status: number, said: string): Error {
  const error = new Error(`the engine answered ${status}: ${said.trim().slice(0, saidBytes)}`);
  const full = /no space left on device|quota exceeded/i.test(said);
  return full ? Object.assign(error, { code: 'ENOSPC' }) : error;
}
