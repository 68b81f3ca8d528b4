import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type } from './frame-codec.ts';
import { type GuestContainer, startGuestContainer } from './guest-container.ts';
import { createGuestBuild, type GuestBuild } from './guest-process.ts';
import { openShell, type ShellDriver } from './shell-driver.ts';

let build: GuestBuild;
let guest: GuestContainer;

beforeAll(async () => {
  build = await createGuestBuild();
  await build.make(`${build.directory}/guest`);
  guest = await startGuestContainer(build);
  await guest.worker.frame(type.SYNCED);
});
afterAll(async () => {
  await guest.stop();
  await build.remove();
});

const shells = [
  { name: 'bash', argv: ['bash'] },
  { name: 'dash', argv: ['dash'] },
  { name: 'zsh', argv: ['zsh'] },
  { name: 'busybox ash', argv: ['busybox', 'ash'] },
];

describe.each(shells)('in $name', ({ name, argv }) => {
  let shell: ShellDriver;
  beforeAll(async () => {
    shell = await openShell(guest.worker, { argv, gated: true });
  });
  afterAll(() => shell.close());

  test('a command has its own streams and status', async () => {
    expect(await shell.run('echo out; echo err >&2; (exit 3)')).toEqual({
      code: 3,
      signal: 0,
      flags: 0,
      stdout: 'out\n',
      stderr: 'err\n',
    });
    expect((await shell.run('echo $?')).stdout).toBe('3\n');
    expect(name).toBeTruthy();
  });
});
