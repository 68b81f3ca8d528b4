import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { workerConfig } from '../../services/sandbox-worker/config.ts';
import { sessionsSettings } from '../../services/sessions/config.ts';

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
const sections = read('docs/settings.md').split(/^## /m);

test.each([
  ['services/sessions', sessionsSettings.shape],
  ['services/sandbox-worker', workerConfig.shape],
])('every setting of %s is described, and no other', (service, shape) => {
  const section = sections.find((text) => text.startsWith(service)) ?? '';
  const described = [...section.matchAll(/^\| `(\w+)`/gm)].map(([, name]) => name);
  expect(described.toSorted()).toEqual(Object.keys(shape).toSorted());
});

test('both services are described with the same log levels, and a worker takes each of them', () => {
  const described = sections.flatMap(
    (text) => /^\| `ASSAY_LOG_LEVEL` \| `info` \| (`trace`.*) \|$/m.exec(text)?.[1] ?? [],
  );
  expect(described).toEqual([described[0], described[0]]);
  const levels = [...(described[0]?.matchAll(/`(\w+)`/g) ?? [])].map(([, level]) => level);
  expect(levels).toEqual(workerConfig.shape.ASSAY_LOG_LEVEL.unwrap().options);
});
