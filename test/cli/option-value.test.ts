import { expect, test } from 'vitest';
import { collectAssignment, parseCount, parseCpus, parseDuration, parseSize } from '../../cli/option-value.ts';

test.each([
  ['1048576', 1_048_576],
  ['512m', 512 * 2 ** 20],
  ['512MiB', 512 * 2 ** 20],
  ['1.5g', 1.5 * 2 ** 30],
  ['2 GB', 2 * 2 ** 30],
  ['64k', 65_536],
])('the size %s is %i bytes', (text, bytes) => {
  expect(parseSize(text)).toBe(bytes);
});

test.each([
  ['90', 90_000],
  ['90s', 90_000],
  ['250ms', 250],
  ['1.5m', 90_000],
  ['2h', 7_200_000],
  ['1d', 86_400_000],
])('the time %s is %i milliseconds', (text, ms) => {
  expect(parseDuration(text)).toBe(ms);
});

test.each(['', 'x', '-1', '0', '1q', '1e9', 'Infinity', '9'.repeat(400)])('%j is neither a size nor a time', (text) => {
  expect(() => parseSize(text)).toThrow(/Give a size/);
  expect(() => parseDuration(text)).toThrow(/Give a time/);
});

test.each(['', 'x', '0', '-2'])('%j is neither a number of cores nor a count', (text) => {
  expect(() => parseCpus(text)).toThrow();
  expect(() => parseCount(text)).toThrow();
});

test('assignments are collected, the last of a name wins and values keep their equal signs', () => {
  const collected = ['A=1', 'B=', 'C=x=y', 'A=2'].reduce<Record<string, string>>(
    (before, text) => collectAssignment(text, before),
    {},
  );
  expect(collected).toEqual({ A: '2', B: '', C: 'x=y' });
  expect(() => collectAssignment('=x')).toThrow(/NAME=VALUE/);
  expect(() => collectAssignment('x')).toThrow(/NAME=VALUE/);
});
