import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { readSessionsConfig } from '../../services/sessions/config.ts';
import { runDirectory } from '../run.ts';

const directory = mkdtempSync(join(runDirectory(), 'config-'));
afterAll(() => rmSync(directory, { recursive: true }));
const file = (name: string, text: string): string => {
  writeFileSync(join(directory, name), text);
  return join(directory, name);
};
const required = {
  ASSAY_NATS_URL: 'nats://127.0.0.1:4222',
  ASSAY_NATS_AUTH_FILE: file('auth.json', '{"user":"u","password":"p"}'),
  ASSAY_WORKER_TOKEN_FILE: file('token', 'a token'),
};
const ttls = (env: Record<string, string>) => {
  const { ttlMs, defaultTtlMs } = readSessionsConfig({ ...required, ...env }).limits;
  return { ttlMs, defaultTtlMs };
};

test('a session that asks for no time to live gets an hour, or the longest that is allowed', () => {
  expect(ttls({})).toEqual({ ttlMs: 86_400_000, defaultTtlMs: 3_600_000 });
  expect(ttls({ ASSAY_LIMIT_TTL_SECONDS: '60' })).toEqual({ ttlMs: 60_000, defaultTtlMs: 60_000 });
  expect(ttls({ ASSAY_LIMIT_DEFAULT_TTL_SECONDS: '30', ASSAY_LIMIT_TTL_SECONDS: '60' }).defaultTtlMs).toBe(30_000);
});

test('a time to live that the operator chose above the longest is refused in words', () => {
  expect(() => ttls({ ASSAY_LIMIT_DEFAULT_TTL_SECONDS: '61', ASSAY_LIMIT_TTL_SECONDS: '60' })).toThrow(
    'ASSAY_LIMIT_DEFAULT_TTL_SECONDS: expected at most ASSAY_LIMIT_TTL_SECONDS, 60 (found: "61")',
  );
});
