import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { addressesOf, defaultFetchOptions, fetchSource } from '../../../services/sandbox-worker/image/fetch-source.ts';
import type { Fetch } from '../../../services/shared/sample/image-recipe.ts';
import { runDirectory } from '../../run.ts';

let server: Server;
let asked: string[];
let files: Record<string, string>;
let directory: string;
let pool: string;

beforeEach(async () => {
  asked = [];
  files = {};
  directory = mkdtempSync(join(runDirectory(), 'fetch-'));
  server = createServer((request, response) => {
    asked.push(request.url ?? '');
    const content = files[request.url ?? ''];
    response.statusCode = content === undefined ? 404 : 200;
    response.end(content ?? 'no such thing');
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  pool = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterEach(() => {
  server.close();
  server.closeAllConnections();
  rmSync(directory, { recursive: true });
});

const options = () => ({
  ...defaultFetchOptions,
  directory,
  npmRegistry: pool,
  debianPools: [`${pool}/a`, `${pool}/b`],
});
const sha512 = (text: string) => `sha512-${createHash('sha512').update(text).digest('base64')}`;
const sha256 = (text: string) => `sha256:${createHash('sha256').update(text).digest('hex')}`;

function debian(integrity: string): Fetch {
  return {
    name: 'n',
    integrity,
    source: { kind: 'debian', package: 'libx-java', version: '1', archive: 'x.orig.tar.gz' },
  };
}

describe('what a sample is made from', () => {
  test('is fetched, checked, and then kept', async () => {
    files['/@s/p/-/p-1.0.0.tgz'] = 'content';
    const wanted: Fetch = {
      name: 'n',
      integrity: sha512('content'),
      source: { kind: 'npm', package: '@s/p', version: '1.0.0' },
    };
    const path = await fetchSource(wanted, options());
    expect(readFileSync(path, 'utf8')).toBe('content');
    await fetchSource(wanted, options());
    expect(asked).toEqual(['/@s/p/-/p-1.0.0.tgz']);
  });

  test('is looked for in one pool after the other', async () => {
    files['/b/libx/libx-java/x.orig.tar.gz'] = 'content';
    await fetchSource(debian(sha256('content')), options());
    expect(asked).toEqual(['/a/libx/libx-java/x.orig.tar.gz', '/b/libx/libx-java/x.orig.tar.gz']);
  });

  test('is refused where it is something else, and nothing is kept', async () => {
    files['/a/libx/libx-java/x.orig.tar.gz'] = 'tampered with';
    const failure = await fetchSource(debian(sha256('content')), options()).catch((error) => error);
    expect(failure.message).toContain('cannot fetch debian libx-java 1:');
    expect(failure.message).toContain(`expected ${sha256('content')}, found ${sha256('tampered with')}`);
    expect(failure.message).toContain('status 404');
    expect(readdirSync(directory)).toEqual([]);
  });

  test('is fetched again where what was kept has changed', async () => {
    files['/a/libx/libx-java/x.orig.tar.gz'] = 'content';
    writeFileSync(join(directory, 'n'), 'rotten');
    expect(readFileSync(await fetchSource(debian(sha256('content')), options()), 'utf8')).toBe('content');
  });

  test('is refused where it is too large, or nobody answers', async () => {
    files['/a/libx/libx-java/x.orig.tar.gz'] = 'x'.repeat(100);
    const small = { ...options(), maxBytes: 10, debianPools: [`${pool}/a`, 'http://127.0.0.1:1'] };
    const failure = await fetchSource(debian(sha256('content')), small).catch((error) => error);
    expect(failure.message).toMatch(/more than 10 bytes[\s\S]*127\.0\.0\.1:1.*: /);
  });
});

test('a part with an address of its own is asked for there', () => {
  const source = { kind: 'url', url: 'https://example.com/a.tar.gz' } as const;
  expect(addressesOf({ name: 'n', integrity: '', source }, options())).toEqual(['https://example.com/a.tar.gz']);
});
