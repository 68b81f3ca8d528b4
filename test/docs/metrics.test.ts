import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
const sections = read('docs/metrics.md').split(/^## /m);

test.each([
  ['services/sessions', /name: '(assay_\w+)'/g, ''],
  ['services/sandbox-worker', /(?:counter|histogram|total|gauge)\('(\w+)'/g, 'assay_worker_'],
])('every metric of %s is described, and no other', (service, shape, prefix) => {
  const section = sections.find((text) => text.startsWith(service)) ?? '';
  const described = [...section.matchAll(/^\| `(\w+)`/gm)].map(([, name]) => name);
  const known = [...read(`${service}/metrics.ts`).matchAll(shape)].map(([, name]) => `${prefix}${name}`);
  expect(known.length).toBeGreaterThan(5);
  expect(described.toSorted()).toEqual(known.toSorted());
});
