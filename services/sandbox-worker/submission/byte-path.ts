/**
 * A path as the kernel knows it: bytes without NUL, parts between slashes, one character for each byte (latin1). No leading
 * slash; the root is ''. Nothing is lost of a name that is no UTF-8, and such strings compare and hash as the bytes would.
 */
export type BytePath = string;

export function bytesOf(path: BytePath): Buffer {
  return Buffer.from(path, 'latin1');
}

export function toBytePath(bytes: Buffer): BytePath {
  return bytes.toString('latin1');
}

/** From text that a person wrote, such as a working directory or a pattern. */
export function fromText(text: string): BytePath {
  return Buffer.from(text, 'utf8').toString('latin1').replace(/^\/+/, '').replace(/\/+$/, '');
}

/** A path on this host, for the calls of node:fs. */
export function hostPath(base: string, path: BytePath): Buffer {
  return path === '' ? Buffer.from(base) : Buffer.concat([Buffer.from(`${base}/`), bytesOf(path)]);
}

export function join(parent: BytePath, name: BytePath): BytePath {
  return parent === '' ? name : `${parent}/${name}`;
}

/** Whether a path is another one, or below it. */
export function isWithin(path: BytePath, above: BytePath): boolean {
  return above === '' || path === above || path.startsWith(`${above}/`);
}

export function parentOf(path: BytePath): BytePath {
  const slash = path.lastIndexOf('/');
  return slash < 0 ? '' : path.slice(0, slash);
}

/** The order of a walk that visits a directory, then what is in it, by name: a slash sorts before every byte. */
export function comparePaths(a: BytePath, b: BytePath): number {
  const end = Math.min(a.length, b.length);
  for (let at = 0; at < end; at += 1) {
    const [left, right] = [a.charCodeAt(at), b.charCodeAt(at)];
    if (left !== right) return (left === slash ? -1 : left) - (right === slash ? -1 : right);
  }
  return a.length - b.length;
}

const slash = 0x2f;

/** Whether a path can be joined to another without leaving it: no empty part, no `.`, no `..`, no NUL. */
export function isPlain(path: BytePath): boolean {
  if (path === '' || path.includes('\0')) return false;
  return path.split('/').every((part) => part !== '' && part !== '.' && part !== '..');
}

/** For people: UTF-8 where it is, everything else as \xNN, on one line, shortened. */
export function printable(path: BytePath, limit = 200): string {
  const text = bytesOf(path.slice(0, limit * 4)).toString('utf8');
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be printed
  const plain = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069\ufffd]/.test(text) ? escaped(path) : text;
  return plain.length > limit ? `${plain.slice(0, limit)}…` : plain;
}

function escaped(path: BytePath): string {
  return path.replace(/[^ -~]/g, (byte) => `\\x${byte.charCodeAt(0).toString(16).padStart(2, '0')}`);
}
