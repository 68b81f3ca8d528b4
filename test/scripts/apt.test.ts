import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { installPackages } from '../../scripts/setup/apt.mjs';
import { runDirectory } from '../run.ts';

let directory: string;

beforeEach(() => {
  directory = mkdtempSync(join(runDirectory(), 'apt-'));
  vi.stubEnv('PATH', `${directory}:${process.env.PATH}`);
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(directory, { recursive: true });
});

/** An apt-get that writes down what it was asked for, after it has failed with these words that many times. */
function standIn(words: string, times: number): { asked(): string[] } {
  const log = join(directory, 'asked');
  const failures = join(directory, 'failures');
  writeFileSync(log, '');
  writeFileSync(failures, '');
  const program = `#!/bin/sh
for word; do case $word in update|install) echo $word >>'${log}';; esac; done
if [ "$(wc -l <'${failures}')" -lt ${times} ]; then
  echo once >>'${failures}'
  echo "${words}" >&2
  exit 100
fi
`;
  writeFileSync(join(directory, 'apt-get'), program);
  chmodSync(join(directory, 'apt-get'), 0o755);
  return { asked: () => readFileSync(log, 'utf8').trim().split('\n') };
}

const install = (patienceMs = 60_000) =>
  installPackages(['a', 'b'], 'a is missing', { patienceMs, pauseMs: 1, lockFile: join(directory, 'lock') });

describe.runIf(process.getuid?.() === 0)('installing packages', () => {
  test.each([
    'E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)',
    'E: Unable to lock directory /var/lib/apt/lists/',
  ])('waits while another apt is at work: %s', async (words) => {
    const apt = standIn(words, 2);
    await install();
    expect(apt.asked()).toEqual(['update', 'update', 'update', 'install']);
  });

  test('gives up when another apt does not end, with what to type', async () => {
    standIn('E: Could not get lock /var/lib/apt/lists/lock', 1_000_000);
    const type = expect.stringContaining('apt-get install --yes --no-install-recommends a b');
    await expect(install(50)).rejects.toMatchObject({ found: expect.stringContaining('Could not get lock'), type });
  });

  test('fails at once where something else is wrong', async () => {
    const apt = standIn('E: Unable to locate package a', 1);
    await expect(install()).rejects.toThrow('Unable to locate package a');
    expect(apt.asked()).toEqual(['update']);
  });

  test('happens once at a time, whoever asks', async () => {
    const apt = standIn('', 0);
    await Promise.all([install(), install()]);
    expect(apt.asked()).toEqual(['update', 'install', 'update', 'install']);
  });
});
