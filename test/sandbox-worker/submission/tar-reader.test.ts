import { expect, test } from 'vitest';
import { encodeHeader, TarError } from '../../../services/sandbox-worker/submission/tar-header.ts';
import { readTar } from '../../../services/sandbox-worker/submission/tar-reader.ts';

const plain = { mode: 0o644, uid: 0, gid: 0, linkName: '' };
const file = encodeHeader({ ...plain, name: 'file', type: '0', size: 0 });
/** A header for the whole archive, without anything in it: nothing of it is kept but its bytes. */
const empty = encodeHeader({ ...plain, name: 'extended', type: 'g', size: 0 });

async function* archive(extended: number): AsyncGenerator<Buffer> {
  for (let each = 0; each < extended; each += 1) yield empty;
  yield Buffer.concat([file, Buffer.alloc(1024)]);
}

async function namesOf(stream: AsyncIterable<Buffer>): Promise<string[]> {
  return (await Array.fromAsync(readTar(stream))).map(({ header }) => header.name);
}

test('an entry may have many extended headers, up to a mebibyte of them', async () => {
  expect(await namesOf(archive(2_048))).toEqual(['file']);
  const reading = namesOf(archive(2_049));
  await expect(reading).rejects.toThrow(TarError);
  await expect(reading).rejects.toThrow('1049088 bytes of tar headers before an entry; expected at most 1048576');
});

test('every entry may have as many', async () => {
  const twice = async function* () {
    for (let each = 0; each < 2; each += 1) {
      for (let header = 0; header < 2_000; header += 1) yield empty;
      yield file;
    }
    yield Buffer.alloc(1024);
  };
  expect(await namesOf(twice())).toEqual(['file', 'file']);
});
