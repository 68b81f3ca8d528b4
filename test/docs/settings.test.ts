import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
const sections = read('docs/settings.md').split(/^## /m);

test.each(['services/sessions', 'services/sandbox-worker'])(
  'every setting of %s is described, and no other',
  (service) => {
    const section = sections.find((text) => text.startsWith(service)) ?? '';
    const described = [...section.matchAll(/^\| `(\w+)`/gm)].map(([, name]) => name);
    const known = [...read(`${service}/config.ts`).matchAll(/^ {2}(ASSAY_\w+):/gm)].map(([, name]) => name);
    expect(described.toSorted()).toEqual(known.toSorted());
  },
);
