import { expect, test } from 'vitest';
import { foolsByConftest } from '../adversary/attack.ts';
import { attacks } from '../adversary/attacks/all.ts';
import { documentedInProcess, documentedTable, tableOf } from '../adversary/table.ts';

// Only a run of the whole suite can tell whether what the table says of IN_PROCESS still holds.
test('docs/adversaries.md tells of every attack that the suite has', () => {
  expect(documentedTable()).toEqual(tableOf(attacks, documentedInProcess()));
});

test('the suite has the attacks that were asked for, none of them twice, and says of each on Python whether it passes', () => {
  expect(attacks.length).toBeGreaterThanOrEqual(35);
  expect(new Set(attacks.map(({ name }) => name)).size).toBe(attacks.length);
  expect(new Set(attacks.map(({ does }) => does)).size).toBe(attacks.length);
  expect(new Set(attacks.map(({ script }) => script)).size).toBe(attacks.length);
  const told = documentedInProcess();
  for (const { name, target } of attacks) {
    if (target === 'python') expect(told.get(name), name).toBeOneOf(['passes', 'caught']);
  }
});

test('docs/adversaries.md says how many attacks fool the naive grader by their conftest alone', () => {
  expect(attacks.filter(foolsByConftest)).toHaveLength(12);
  expect(documentedTable().filter((row) => row.includes('(conftest)'))).toHaveLength(12);
});
