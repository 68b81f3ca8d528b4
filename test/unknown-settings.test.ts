import { globSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { unknownSettings } from '../services/unknown-settings.ts';

test.each([
  ['ASSAY_LIMT_TTL_SECONDS', 'did you mean ASSAY_LIMIT_TTL_SECONDS?'],
  ['ASSAY_IMAGE', 'did you mean ASSAY_IMAGES?'],
  ['ASSAY_WORKER_ADVERTISED', 'did you mean ASSAY_WORKER_ADVERTISE?'],
  ['ASSAY_APIKEY', 'did you mean ASSAY_API_KEY?'],
  ['ASSAY_COLOUR_OF_THE_WALLS', 'see docs/settings.md'],
])('%s is told as no setting: %s', (name, hint) => {
  expect(unknownSettings({ [name]: '1', PATH: '/bin' })).toEqual([`${name} is not a setting; ${hint}`]);
});

test('a setting of either service is known to both', () => {
  expect(unknownSettings({ ASSAY_LIMIT_TTL_SECONDS: '1', ASSAY_WARM_POOL: '0' })).toEqual([]);
});

test('nothing is said of a variable that the command, the client, the benchmarks, the scripts or the tests read', () => {
  // What test/runner writes is run in containers.
  const files = globSync('{cli,clients,bench,scripts,test}/**/*.{ts,mjs}', {
    exclude: ['**/node_modules/**', 'test/runner/**'],
  });
  const read = files.flatMap((file) =>
    [...readFileSync(file, 'utf8').matchAll(/\benv\.(ASSAY_[A-Z_]+)/g)].map(([, name = '']) => name),
  );
  expect(read).toEqual(expect.arrayContaining(['ASSAY_API_KEY', 'ASSAY_ENDPOINT', 'ASSAY_STORM_SCALE']));
  expect(unknownSettings(Object.fromEntries(read.map((name) => [name, '1'])))).toEqual([]);
});
