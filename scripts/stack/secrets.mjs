import { randomBytes } from 'node:crypto';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';

const alphabet = 'abcdefghijklmnopqrstuvwxyz0123456789';
// The largest multiple of the alphabet's length in a byte: a byte above it would favour the first letters.
const fairBytes = 256 - (256 % alphabet.length);

/** Random letters and digits; 40 of them hold over 200 bits. */
export function randomName(length) {
  let name = '';
  while (name.length < length) {
    for (const byte of randomBytes(length)) {
      if (byte < fairBytes && name.length < length) name += alphabet[byte % alphabet.length];
    }
  }
  return name;
}

/** What the file holds; made once by `make`, readable by the owner only, and whole even after a crash. */
export function keptSecret(file, make) {
  try {
    const kept = readFileSync(file, 'utf8').trim();
    if (kept) return kept;
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
  }
  const made = make();
  writePrivateFile(file, `${made}\n`);
  return made;
}

export function writePrivateFile(file, text) {
  const temporary = `${file}.new`;
  writeFileSync(temporary, text, { mode: 0o600 });
  renameSync(temporary, file);
}
