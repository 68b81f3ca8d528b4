import { expect, test } from 'vitest';
import { lockedPackages, lockFileProblems } from '../../scripts/setup/packages.mjs';

test('the lock file has an entry for every package that another one depends on, of foreign platforms too', () => {
  expect(lockFileProblems(lockedPackages())).toEqual([]);
});

test('a missing package of a foreign platform is named', () => {
  const packages = {
    'node_modules/tool': { version: '1.0.0', optionalDependencies: { 'tool-darwin': '1.0.0', 'tool-linux': '1.0.0' } },
    'node_modules/tool-linux': { version: '1.0.0' },
  };
  expect(lockFileProblems(packages)).toEqual(['tool-darwin, which node_modules/tool depends on, is missing']);
});

test('a dependency is found beside its package and in every directory above', () => {
  const packages = {
    '': { dependencies: { a: '1' } },
    'node_modules/a': { version: '1.0.0', dependencies: { b: '2' } },
    'node_modules/a/node_modules/b': { version: '2.0.0', dependencies: { c: '1', d: '1' } },
    'node_modules/a/node_modules/c': { version: '1.0.0' },
    'node_modules/d': { version: '1.0.0', resolved: 'https://registry.example/d.tgz' },
  };
  expect(lockFileProblems(packages)).toEqual(['node_modules/d names a registry: https://registry.example/d.tgz']);
});
