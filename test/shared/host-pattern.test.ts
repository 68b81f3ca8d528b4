import { describe, expect, test } from 'vitest';
import {
  coversPattern,
  type HostPattern,
  matchesHost,
  normaliseHost,
  parseHostPattern,
  parseOperatorPattern,
} from '../../services/shared/host-pattern.ts';

const pattern = (text: string): HostPattern => {
  const found = parseOperatorPattern(text);
  if (found === undefined) throw new Error(`no pattern: ${text}`);
  return found;
};

describe('a host name', () => {
  test.each([
    ['Example.ORG', 'example.org'],
    ['example.org.', 'example.org'],
    ['xn--bcher-kva.example', 'xn--bcher-kva.example'],
    ['registry', 'registry'],
    ['_dmarc.example.org', '_dmarc.example.org'],
  ])('%s is written %s', (text, host) => expect(normaliseHost(text)).toBe(host));

  test.each([
    '',
    '.',
    'example..org',
    'example.org..',
    '.example.org',
    '-a.org',
    'a-.org',
    'bücher.example',
    'a b.org',
    'a/b',
    'a@b',
    'a:80',
    '[::1]',
    '::1',
    '127.0.0.1',
    '127.0.0.1.',
    '127.1',
    '2130706433',
    '0x7f000001',
    '0x7f.1',
    'example.0x1',
    'example.1',
    'a%2eorg',
    'a\u0000.org',
    `${'a'.repeat(64)}.org`,
    `${'a.'.repeat(127)}org`,
  ])('%j is none', (text) => expect(normaliseHost(text)).toBeUndefined());
});

describe('a pattern', () => {
  test.each([
    ['example.org', 'example.org', 443, true],
    ['example.org', 'example.org', 80, true],
    ['example.org', 'example.org', 22, false],
    ['example.org:22', 'example.org', 22, true],
    ['example.org:22', 'example.org', 443, false],
    ['example.org', 'www.example.org', 443, false],
    ['*.example.org', 'www.example.org', 443, true],
    ['*.example.org', 'a.b.example.org', 443, true],
    ['*.example.org', 'example.org', 443, false],
    ['*.example.org', 'badexample.org', 443, false],
    ['EXAMPLE.org.', 'example.org', 443, true],
    ['*', 'anything.example', 443, true],
    ['*', 'anything.example', 22, false],
    ['*:*', 'anything.example', 22, true],
    ['*:22', 'anything.example', 22, true],
    ['example.org:*', 'example.org', 8080, true],
  ])('%s stands for %s port %i: %s', (text, host, port, expected) => {
    expect(matchesHost(pattern(text), host, port)).toBe(expected);
  });

  test.each(['', '*', '*:443', '*.', '*.*.org', 'a.*.org', 'example.org:', 'example.org:0', 'example.org:65536'])(
    '%j is none that a session may ask for',
    (text) => expect(parseHostPattern(text)).toBeUndefined(),
  );
  test.each(['example.org:*', 'example.org:080', 'example.org:1:2', '1.2.3.4', '[::1]:443', 'http://example.org'])(
    '%j is none that a session may ask for either',
    (text) => expect(parseHostPattern(text)).toBeUndefined(),
  );

  test.each([
    ['*:*', '*.example.org:22', true],
    ['*', 'example.org', true],
    ['*', 'example.org:8443', false],
    ['*.example.org', '*.a.example.org', true],
    ['*.example.org', '*.example.org', true],
    ['*.example.org', 'example.org', false],
    ['example.org', '*.example.org', false],
    ['example.org', 'example.org:443', true],
    ['example.org:443', 'example.org', false],
  ])('within %s is %s: %s', (limit, asked, expected) => {
    expect(coversPattern(pattern(limit), pattern(asked))).toBe(expected);
  });
});
