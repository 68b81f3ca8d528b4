import type { ArchivedFiles } from '../docker/archived-files.ts';
import { fromText } from '../submission/byte-path.ts';
import { typeFlags } from '../submission/tar-header.ts';
import { readTar } from '../submission/tar-reader.ts';
import { graderUser, reportsDirectory } from './grading-place.ts';
import type { ReportBytes } from './report-folder.ts';

/**
 * Reads one file of the report folder through the engine, of a container whose processes are all gone. As from the upper
 * directory, but that a second name of the file is not seen.
 */
export async function readArchivedReport(files: ArchivedFiles, path: string, limitBytes: number): Promise<ReportBytes> {
  const segments = [...reportsDirectory.split('/'), ...path.split('/')].filter((part) => part !== '' && part !== '.');
  for (let depth = 1; depth < segments.length; depth += 1) {
    const above = fromText(segments.slice(0, depth).join('/'));
    if ((await files.kind(above)) !== 'directory') return missing(`${segments[depth - 1]} is no folder`);
  }
  const read = await files.read(fromText(segments.join('/')), (tar) => firstFile(tar, limitBytes));
  return read ?? missing('no report');
}

async function firstFile(tar: AsyncIterable<Buffer>, limitBytes: number): Promise<ReportBytes> {
  for await (const { header, body } of readTar(tar)) {
    if (header.type !== typeFlags.file) return missing('it is no regular file');
    if (header.uid !== graderUser.uid) return missing(`user ${header.uid} wrote it, not the grader`);
    if (header.size > limitBytes) return missing(`${header.size} bytes, more than ${limitBytes}`);
    const pieces: Buffer[] = [];
    await body((piece) => pieces.push(Buffer.from(piece)));
    return { ok: true, bytes: Buffer.concat(pieces) };
  }
  return missing('no report');
}

function missing(reason: string): ReportBytes {
  return { ok: false, reason };
}
