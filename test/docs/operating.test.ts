import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { unknownSettings } from '../../services/unknown-settings.ts';

const read = (path: string) => readFileSync(new URL(`../../docs/${path}`, import.meta.url), 'utf8');
const page = read('operating.md');

test("the operator's page names no setting that there is not", () => {
  // `ASSAY_DEFAULT_*` stands for several.
  const named = [...page.matchAll(/\bASSAY_[A-Z_]+[A-Z](?!_?\*)\b/g)].map(([name]) => name);
  expect(named.length).toBeGreaterThan(30);
  expect(unknownSettings(Object.fromEntries(named.map((name) => [name, ''])))).toEqual([]);
});

test("the operator's page names no metric that there is not", () => {
  const known = new Set([...read('metrics.md').matchAll(/^\| `(\w+)`/gm)].map(([, name]) => name));
  const named = [...page.matchAll(/`(assay_[a-z_]+)[`{]/g)].map(([, name]) => name);
  expect(named.length).toBeGreaterThan(10);
  expect(named.filter((name) => !known.has(name))).toEqual([]);
});
