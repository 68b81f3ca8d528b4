import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pino } from 'pino';
import { describe, expect, test } from 'vitest';
import { openTracing } from '../../services/shared/tracing.ts';

const log = pino({ level: 'silent' });

describe('tracing', () => {
  test('is off unless a collector is named, or where OpenTelemetry is told to be', async () => {
    const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1' };
    expect(await openTracing('test', {}, log)).toBeUndefined();
    expect(await openTracing('test', { OTEL_EXPORTER_OTLP_ENDPOINT: '' }, log)).toBeUndefined();
    expect(await openTracing('test', { ...endpoint, OTEL_SDK_DISABLED: 'true' }, log)).toBeUndefined();
    expect(await openTracing('test', { ...endpoint, OTEL_TRACES_EXPORTER: 'none' }, log)).toBeUndefined();
  });

  test('that is off loads nothing of OpenTelemetry: one file imports it, and only when it is on', () => {
    const root = new URL('../../services', import.meta.url).pathname;
    const files = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'));
    const having = (shape: RegExp) => files.filter((name) => shape.test(readFileSync(join(root, name), 'utf8')));
    expect(having(/'@opentelemetry\//)).toEqual(['shared/otlp-tracing.ts']);
    expect(having(/from '.*otlp-tracing\.ts'/)).toEqual([]);
    expect(having(/import\('\.\/otlp-tracing\.ts'\)/)).toEqual(['shared/tracing.ts']);
  });
});
