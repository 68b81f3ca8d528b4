import { expect, test } from 'vitest';
import { comparePaths, fromText, printable } from '../../../services/sandbox-worker/submission/byte-path.ts';
import { compilePatterns } from '../../../services/sandbox-worker/submission/path-pattern.ts';

test.each([
  ['**', 'a', true],
  ['**', 'a/b/.c', true],
  ['.', 'a/b', true],
  ['src/**', 'src/a/b.c', true],
  ['src/**', 'src', false],
  ['src/**', 'lib/src/a', false],
  ['src', 'lib/src/a', true],
  ['src', 'srcs', false],
  ['*.pyc', 'a/b/c.pyc', true],
  ['*.pyc', 'c.py', false],
  ['a/*.c', 'a/b.c', true],
  ['a/*.c', 'a/b/d.c', false],
  ['a/**/z', 'a/z', true],
  ['a/**/z', 'a/b/c/z', true],
  ['a/**/z', 'a/b/c/y', false],
  ['**/tests', 'x/tests/y', true],
  ['a/*/c', 'a/b/c/d', true],
  ['file?', 'file1', true],
  ['file?', 'file', false],
  ['[a-c]x', 'bx', true],
  ['[!a-c]x', 'bx', false],
  ['[ab', '[ab', true],
  ['\\*', '*', true],
  ['\\*', 'x', false],
  ['grüße/*', 'grüße/ü', true],
  ['*a*b*c', 'xxaxxbxxc', true],
  ['*a*b*c', 'xxaxxbxxd', false],
])('the pattern %s for the path %s is %s', (pattern, path, meant) => {
  expect(compilePatterns([pattern])(fromText(path))).toBe(meant);
});

test('a newline or a byte that is no text hides nothing from a pattern', () => {
  const tests = compilePatterns(['tests/**']);
  expect(tests('tests/a\nb.py')).toBe(true);
  expect(tests('tests/\xff\xfe')).toBe(true);
  expect(tests('tests/\n/x')).toBe(true);
  expect(compilePatterns(['*.py'])('d/\n\xff.py')).toBe(true);
});

test('a hostile name costs no more than its length allows', () => {
  const many = compilePatterns([`${'*a'.repeat(30)}b`]);
  const began = performance.now();
  expect(many('a'.repeat(255))).toBe(false);
  expect(performance.now() - began).toBeLessThan(20_000);
});

test('a negated pattern is refused rather than misread', () => {
  expect(() => compilePatterns(['!src'])).toThrow(/cannot be negated/);
});

test('paths sort as a walk meets them', () => {
  const walked = ['a', 'a/b', 'a/b/c', 'a/c', 'a b', 'a!', 'a.x', 'ab'];
  expect(walked.toReversed().sort(comparePaths)).toEqual(['a', 'a/b', 'a/b/c', 'a/c', 'a b', 'a!', 'a.x', 'ab']);
});

test('odd names are printed on one line and nothing in them is lost', () => {
  expect(printable(fromText('grüße'))).toBe('grüße');
  expect(printable('a\nb')).toBe('a\\x0ab');
  expect(printable('\xff')).toBe('\\xff');
  expect(printable('\x1b[2J')).toBe('\\x1b[2J');
});
