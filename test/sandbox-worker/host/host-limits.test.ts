import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { raiseHostLimits } from '../../../services/sandbox-worker/host/host-limits.ts';
import { runDirectory } from '../../run.ts';
import { log } from '../docker/scratch-host.ts';

const directory = mkdtempSync(join(runDirectory(), 'sysctl-'));

function raised(found: Readonly<Record<string, string>>): string[] {
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  for (const [name, value] of Object.entries(found)) {
    mkdirSync(dirname(join(directory, name)), { recursive: true });
    writeFileSync(join(directory, name), value);
  }
  raiseHostLimits(log, directory);
  return Object.keys(found).map((name) => readFileSync(join(directory, name), 'utf8'));
}

test('limits of the host are raised to what systemd sets, and a number as high is kept', () => {
  const found = { 'kernel/pid_max': '32768\n', 'fs/file-max': '9223372036854775807\n', 'kernel/pty/max': '4096\n' };
  expect(raised(found)).toEqual(['4194304', '9223372036854775807\n', '1048576']);
});

test('a limit that cannot be read or raised stops nobody', () => {
  expect(raised({ 'kernel/pid_max': '4194304\n' })).toEqual(['4194304\n']);
});
