import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { findNode, packagedNode } from '../../scripts/setup/node-runtime.mjs';
import { runDirectory } from '../run.ts';

const assay = fileURLToPath(new URL('../../cli/assay.mjs', import.meta.url));
let directory: string;

beforeEach(() => {
  directory = mkdtempSync(join(runDirectory(), 'node-'));
});
afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
  rmSync(directory, { recursive: true });
});

/** A program named node that says it is this version. Returns its directory. */
function standIn(version: string): string {
  const place = join(directory, version);
  mkdirSync(place);
  writeFileSync(join(place, 'node'), `#!/bin/sh\necho ${version}\n`);
  chmodSync(join(place, 'node'), 0o755);
  return place;
}

describe('the Node of the services', () => {
  test('is the one that runs set-up where that is new enough', () => {
    vi.stubEnv('PATH', standIn('v26.0.0'));
    expect(findNode()).toBe(process.execPath);
  });

  test('is a newer one on PATH where the one that runs set-up is too old', () => {
    const [old, newer] = [standIn('v23.9.0'), standIn('v26.0.0')];
    vi.spyOn(process, 'version', 'get').mockReturnValue('v20.20.2');
    vi.stubEnv('PATH', [old, newer].join(delimiter));
    expect(findNode()).toBe(join(newer, 'node'));
  });

  test.runIf(oldNode())('is the one of the npm package only where the machine has none', () => {
    const script = `import { findNode } from ${JSON.stringify(import.meta.resolve('../../scripts/setup/node-runtime.mjs'))};
      process.stdout.write(String(findNode()));`;
    const found = spawnSync(oldNode() ?? '', ['--input-type=module', '-e', script], {
      encoding: 'utf8',
      env: { PATH: '/usr/bin:/bin' },
    });
    expect(found.stdout).toBe(packagedNode());
  });
});

test.runIf(oldNode())('the command runs on a Node that cannot run our code by itself', () => {
  const ended = spawnSync(oldNode() ?? '', [assay, '--version'], { encoding: 'utf8', env: { PATH: '/usr/bin:/bin' } });
  expect(ended).toMatchObject({ status: 0, stderr: '', stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/) });
});

/** The Node of the system, if it is older than 24. */
function oldNode(): string | undefined {
  const version = spawnSync('/usr/bin/node', ['--version'], { encoding: 'utf8' }).stdout ?? '';
  return Number(/^v(\d+)/.exec(version)?.[1]) < 24 ? '/usr/bin/node' : undefined;
}
