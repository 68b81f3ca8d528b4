import { type BytePath, fromText } from './byte-path.ts';

/** Whether a path, or a directory above it, is meant. */
export type PathMatcher = (path: BytePath) => boolean;

/** One byte of a name: any, one of a set, or (as a star) any number of any. */
type Token = 'star' | 'any' | ReadonlySet<number>;
type Segment = 'anywhere' | readonly Token[];

/**
 * Patterns in the manner of .gitignore: `*`, `?`, `[a-z]`, `**`; one without a slash is meant at any depth, and what is below
 * a directory that is meant is meant too. They are compared byte by byte, in time that no name can blow up, and a newline is
 * a byte as any other: a regular expression whose dot stops there would let a hostile name slip through.
 */
export function compilePatterns(patterns: readonly string[]): PathMatcher {
  const compiled = patterns.map(compile);
  const meant = (parts: readonly string[]): boolean => compiled.some((pattern) => matchSegments(pattern, parts));
  return (path) => {
    if (compiled.length === 0) return false;
    const parts = path.split('/');
    for (let depth = 1; depth <= parts.length; depth += 1) if (meant(parts.slice(0, depth))) return true;
    return false;
  };
}

function compile(text: string): Segment[] {
  if (text.startsWith('!')) {
    throw new Error(
      `pattern ${JSON.stringify(text)}: a pattern cannot be negated; expected include and exclude patterns`,
    );
  }
  const pattern = fromText(text);
  if (pattern === '' || pattern === '.') return ['anywhere', ['star']];
  const parts = pattern.split('/').filter((part) => part !== '');
  const segments: Segment[] = parts.map((part) => (part === '**' ? 'anywhere' : tokens(part)));
  if (parts.length === 1 && segments[0] !== 'anywhere') segments.unshift('anywhere');
  // `a/**` is what is in a, and not a itself.
  if (segments.at(-1) === 'anywhere') segments.push(['star']);
  return segments;
}

function tokens(part: string): Token[] {
  const found: Token[] = [];
  for (let at = 0; at < part.length; at += 1) {
    const char = part[at];
    const set = char === '[' ? setAt(part, at) : undefined;
    if (set !== undefined) {
      found.push(set.bytes);
      at = set.end;
    } else if (char === '*') {
      if (found.at(-1) !== 'star') found.push('star');
    } else if (char === '?') found.push('any');
    else {
      if (char === '\\' && at + 1 < part.length) at += 1;
      found.push(new Set([part.charCodeAt(at)]));
    }
  }
  return found;
}

/** `[a-z]`, `[!x]`; undefined where the bracket is not closed and so stands for itself. */
function setAt(part: string, start: number): { bytes: ReadonlySet<number>; end: number } | undefined {
  const negated = part[start + 1] === '!' || part[start + 1] === '^';
  const first = start + (negated ? 2 : 1);
  // A bracket that comes first is one of the set.
  const end = part.indexOf(']', first + 1);
  if (end < 0) return undefined;
  const named = new Set<number>();
  for (let at = first; at < end; at += 1) {
    const isRange = part[at + 1] === '-' && at + 2 < end;
    const last = part.charCodeAt(isRange ? at + 2 : at);
    for (let byte = part.charCodeAt(at); byte <= last; byte += 1) named.add(byte);
    if (isRange) at += 2;
  }
  if (!negated) return { bytes: named, end };
  return { bytes: new Set(Array.from({ length: 256 }, (_, byte) => byte).filter((byte) => !named.has(byte))), end };
}

function matchSegments(segments: readonly Segment[], parts: readonly string[]): boolean {
  return matchWild(
    segments.length,
    parts.length,
    (at) => segments[at] === 'anywhere',
    (at, part) => matchName(segments[at] as readonly Token[], parts[part] as string),
  );
}

function matchName(pattern: readonly Token[], name: string): boolean {
  return matchWild(
    pattern.length,
    name.length,
    (at) => pattern[at] === 'star',
    (at, byte) => {
      const token = pattern[at];
      return token === 'any' || (token as ReadonlySet<number>).has(name.charCodeAt(byte));
    },
  );
}

/** Wildcards without recursion: only the latest one can need to take more, so the time is at most length × length. */
function matchWild(
  patternLength: number,
  length: number,
  isWild: (at: number) => boolean,
  fits: (at: number, item: number) => boolean,
): boolean {
  let [at, item, wild, taken] = [0, 0, -1, 0];
  while (item < length) {
    if (at < patternLength && isWild(at)) [wild, taken, at] = [at, item, at + 1];
    else if (at < patternLength && fits(at, item)) [at, item] = [at + 1, item + 1];
    else if (wild >= 0) [taken, at, item] = [taken + 1, wild + 1, taken + 1];
    else return false;
  }
  while (at < patternLength && isWild(at)) at += 1;
  return at === patternLength;
}
