import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { defaultLimits, type SubmissionRules } from '../../../services/sandbox-worker/submission/rules.ts';
import { baseImage, nothingLeft, type Reported } from '../docker/scratch-host.ts';
import { listArchive } from './archive-listing.ts';
import { createSealingHost, sealed } from './sealing-host.ts';

/** A process in the background that has a write lease on a file: nobody else can open it without waiting. */
const leaseScript = `python3 -c '
import fcntl, os, time
file = os.open("leased/file", os.O_WRONLY)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
if os.fork() == 0:
    os.close(1), os.close(2)
    time.sleep(100000)
'`;

/** Each attack has a directory of its own, which is then sealed as the working directory. */
const attacks = `
cd /workspace
mkdir fifo && mkfifo fifo/pipe
mkdir socket && perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => "socket/s", Listen => 1) or die'
mkdir setuid && cp /bin/true setuid/true && chmod u+s setuid/true
mkdir setgid && cp /bin/true setgid/true && chmod g+s setgid/true
mkdir setgid-directory && mkdir setgid-directory/d && chmod 2755 setgid-directory/d
mkdir hard && echo secret > /tmp/elsewhere && ln /tmp/elsewhere hard/inside
mkdir sparse && truncate -s 300G sparse/hole
mkdir huge && head -c 3000000 /dev/zero > huge/file
mkdir many && (cd many && seq 1 3000 | xargs touch)
mkdir spread && (cd spread && seq 1 60 | xargs mkdir)
mkdir nested && (cd nested && mkdir 0 z && seq 1 300 | xargs mkdir && (cd 0 && seq 1 450 | xargs touch) && (cd z && seq 1 2000 | xargs touch))
mkdir long && (cd long && exec perl -e 'for (1..40) { mkdir "n" x 200; chdir "n" x 200 or die } open F, ">", "end" or die')
mkdir deep && perl -e 'chdir "deep"; for (1..3000) { mkdir "d"; chdir "d" or die } open F, ">", "end"'
mkdir leased && touch leased/file && ${leaseScript}
mkdir links && ln -s /etc/shadow links/absolute && ln -s ../../../../../../../../etc/hostname links/relative && ln -s loop links/loop
ln -s /etc as-link
mkdir -p above && ln -s /etc above/link
mkdir unreadable && echo u > unreadable/file && chmod 000 unreadable/file unreadable
mkdir forbidden && echo f > forbidden/x
echo file > as-file
`;

const all = await createSealingHost();
let imageId: string;
let session: Reported;

beforeAll(async () => {
  imageId = (await all.engine.image(baseImage())).id;
  await all.manifests.of(imageId);
  session = await all.session(attacks, imageId);
  expect(session.said).toBe('');
});

afterAll(async () => {
  await all.engine.remove(session.id);
  expect(await all.host.close()).toEqual(nothingLeft);
});

const seal = (name: string, change: Partial<SubmissionRules> = {}) =>
  all.seal(session, { workingDirectory: `/workspace/${name}`, ...change });
const limits = { ...defaultLimits, bytes: 2_000_000, files: 50 };

describe('a submission is invalid', () => {
  test.each([
    ['a FIFO', 'fifo', 'SPECIAL_FILE', 'pipe'],
    ['a socket', 'socket', 'SPECIAL_FILE', 's'],
    ['a file that a process has a lease on', 'leased', 'LEASED', 'file'],
    ['a setuid file', 'setuid', 'SET_ID', 'true'],
    ['a setgid file', 'setgid', 'SET_ID', 'true'],
    ['a hard link to a file outside', 'hard', 'HARD_LINK', 'inside'],
    ['a hole larger than the limit', 'sparse', 'TOO_MANY_BYTES', 'hole'],
    ['a file larger than the limit', 'huge', 'TOO_MANY_BYTES', 'file'],
    ['more names than can be looked at', 'many', 'TOO_MANY_FILES', ''],
    ['more directories than files are allowed', 'spread', 'TOO_MANY_FILES', '55'],
  ])('with %s', async (_, name, reason, path) => {
    expect(await seal(name, { limits })).toMatchObject({ kind: 'invalid', finding: { reason, path } });
  });

  test('with more names than can be looked at, spread over directories, even if none of them is asked for', async () => {
    const result = await seal('nested', { limits, include: ['nothing'] });
    expect(result).toMatchObject({ kind: 'invalid', finding: { reason: 'TOO_MANY_FILES' } });
  });

  test('with a path that is too long, or deeper than any path can be', async () => {
    expect(await seal('long')).toMatchObject({ finding: { reason: 'PATH_TOO_LONG' } });
    expect(await seal('deep')).toMatchObject({ finding: { reason: 'TOO_DEEP' } });
    // Longer than any path that the kernel takes: only what is reached step by step is read at all.
    const long = sealed(await seal('long', { limits: { ...defaultLimits, pathBytes: 10_000 } }));
    expect(long.files).toBe(41);
  });

  test.each(['as-link', 'above/link', 'as-file', 'not-there', 'as-link/apt'])(
    'when the working directory is %s, no directory',
    async (name) => {
      expect(await seal(name)).toMatchObject({ kind: 'invalid', finding: { reason: 'WORKING_DIRECTORY' } });
    },
  );

  test('with a forbidden path', async () => {
    const finding = { reason: 'FORBIDDEN_PATH', path: 'x' };
    expect(await seal('forbidden', { forbid: ['x'] })).toMatchObject({ finding });
    expect(await seal('forbidden', { forbid: ['y'] })).toMatchObject({ kind: 'sealed' });
  });
});

describe('a submission that is sealed through the engine, as without root, is invalid', () => {
  const sealArchived = (name: string, change: Partial<SubmissionRules> = {}) =>
    all.seal(session, { workingDirectory: `/workspace/${name}`, ...change }, { archived: true });

  test.each([
    ['a FIFO', 'fifo', 'SPECIAL_FILE'],
    ['a setuid file', 'setuid', 'SET_ID'],
    ['a hole larger than the limit', 'sparse', 'TOO_MANY_BYTES'],
    ['a file larger than the limit', 'huge', 'TOO_MANY_BYTES'],
    ['more names than can be looked at', 'many', 'TOO_MANY_FILES'],
    ['more directories than files are allowed', 'spread', 'TOO_MANY_FILES'],
    ['a link instead of the working directory', 'as-link', 'WORKING_DIRECTORY'],
    ['a link on the way to it', 'as-link/apt', 'WORKING_DIRECTORY'],
    ['a file instead of it', 'as-file', 'WORKING_DIRECTORY'],
    ['nothing there', 'not-there', 'WORKING_DIRECTORY'],
  ])('with %s', async (_, name, reason) => {
    expect(await sealArchived(name, { limits })).toMatchObject({ kind: 'invalid', finding: { reason } });
  });

  test('with a path that is too long, or deeper than any path can be', async () => {
    expect(await sealArchived('long')).toMatchObject({ finding: { reason: 'PATH_TOO_LONG' } });
    expect(await sealArchived('deep')).toMatchObject({ finding: { reason: 'TOO_DEEP' } });
  });

  test('and what was unreadable, linked or excluded is taken as ever', async () => {
    for (const name of ['unreadable', 'links', 'setgid-directory']) {
      expect(sealed(await sealArchived(name)).digest).toBe(sealed(await seal(name)).digest);
    }
    expect(sealed(await sealArchived('huge', { limits, exclude: ['*'] })).bytes).toBe(0);
  });
});

describe('what is sealed', () => {
  test('has links that were never followed', async () => {
    const { digest } = sealed(await seal('links'));
    const { files } = await listArchive((await all.store.fetch(digest))?.file ?? '');
    expect([...files].map(([name, content]) => `${name} ${content}`)).toEqual([
      'absolute -> /etc/shadow',
      'loop -> loop',
      'relative -> ../../../../../../../../etc/hostname',
    ]);
  });

  test('has what the agent cannot read any more, and no setgid bit on a directory', async () => {
    expect(sealed(await seal('unreadable')).files).toBe(1);
    const { digest } = sealed(await seal('setgid-directory'));
    const { id, applied } = await all.apply(digest, imageId, { workingDirectory: '/workspace' });
    expect(applied).toMatchObject({ kind: 'applied', files: 1 });
    await all.engine.remove(id);
  });

  test('does not count what is excluded', async () => {
    expect(sealed(await seal('fifo', { exclude: ['pipe'] })).files).toBe(0);
    expect(sealed(await seal('huge', { limits, exclude: ['*'] })).bytes).toBe(0);
  });
});

test('an invalid submission leaves the session running, and nothing in staging', async () => {
  const result = await seal('fifo');
  expect(result.kind).toBe('invalid');
  const staging = readdirSync(all.host.directory).filter((name) => name.startsWith('staging-'));
  expect(staging.length).toBeGreaterThan(0);
  for (const name of staging) expect(readdirSync(join(all.host.directory, name))).toEqual([]);
  expect((await all.engine.list(all.host.installation)).map(({ state }) => state)).toEqual(['running']);
});

test('a session whose container died is lost, not empty', async () => {
  const { id, pid } = await all.engine.run(all.host.spec(imageId));
  process.kill(pid, 'SIGKILL');
  await expect.poll(() => all.engine.pid(id)).toBeUndefined();
  await expect(all.seal({ ...session, id })).rejects.toMatchObject({ reason: 'SANDBOX_LOST' });
  await all.engine.remove(id);
});
