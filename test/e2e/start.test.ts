import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stripVTControlCharacters } from 'node:util';
import { jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { afterAll, afterEach, describe, expect, inject, test } from 'vitest';
import { type Client, createClient } from '../../clients/typescript/index.ts';
import { listContainers } from '../leftovers.ts';
import { runDirectory, runId } from '../run.ts';
import { startNats } from '../shared/store/nats-process.ts';
import { shareManifests } from '../shared-manifests.ts';

const scripts = fileURLToPath(new URL('../../scripts', import.meta.url));
/** Where a program may be tempted to leave something: each is empty before, and has to be so afterwards. */
const elsewhere = ['home', 'tmp', 'cwd'] as const;
const places: string[] = [];
const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});
afterAll(() => {
  for (const directory of places) rmSync(directory, { recursive: true, force: true });
});

interface Place {
  readonly directory: string;
  readonly dataDir: string;
  readonly installation: string;
}

/** A machine's corner in which nothing is set up yet. */
function makePlace(): Place {
  const directory = mkdtempSync(join(runDirectory(), 'start-'));
  places.push(directory);
  for (const name of ['data', ...elsewhere]) mkdirSync(join(directory, name), { mode: 0o700 });
  const dataDir = join(directory, 'data');
  // Containers are found by this label when the run looks for what is left.
  const installation = `${runId()}-${process.pid}-start-${places.length}`;
  writeFileSync(join(dataDir, 'installation'), installation, { mode: 0o600 });
  return { directory, dataDir, installation };
}

interface Script {
  /** Resolves to all it has printed once that has this in it. */
  printed(pattern: RegExp): Promise<string>;
  interrupt(): void;
  /** Sends TERM to the process that was launched, and to no child of it. */
  terminate(): void;
  readonly ended: Promise<{ code: number | null; stdout: string; stderr: string }>;
}

function launch(command: string[], { directory, dataDir }: Place, more: Record<string, string> = {}): Script {
  const [program = '', ...args] = command;
  const child = spawn(program, args, {
    cwd: join(directory, 'cwd'),
    env: {
      PATH: process.env.PATH ?? '',
      HOME: join(directory, 'home'),
      TMPDIR: join(directory, 'tmp'),
      ASSAY_DATA_DIR: dataDir,
      ASSAY_LISTEN: '127.0.0.1:0',
      // npm would be asked for its registry, and notes in HOME that it was.
      ASSAY_EGRESS_ALLOW: '',
      ...more,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const said = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (piece: string) => {
      said[name] += stripVTControlCharacters(piece);
    });
  }
  const ended = once(child, 'close').then(([code]) => ({ code: code as number | null, ...said }));
  cleanups.push(() => child.kill('SIGKILL') && ended);
  return {
    async printed(pattern) {
      while (!pattern.test(said.stdout)) {
        const over = await Promise.race([once(child.stdout, 'data').then(() => undefined), ended]);
        if (over)
          throw new Error(`it ended with ${over.code} before it printed ${pattern}:\n${over.stdout}${over.stderr}`);
      }
      return said.stdout;
    },
    interrupt: () => child.kill('SIGINT'),
    terminate: () => child.kill('SIGTERM'),
    ended,
  };
}

const script = (name: string): string[] => [process.execPath, join(scripts, `${name}.mjs`)];

/** What of this place still runs, or lies where it does not belong. */
async function leftOf({ directory, dataDir, installation }: Place): Promise<string[]> {
  const containers = await listContainers(inject('setup').dockerSocket);
  return [
    ...containers.filter(({ Labels }) => Labels['dev.assay.installation'] === installation).map(({ Id }) => Id),
    ...processesOf(dataDir),
    ...elsewhere.flatMap((name) => readdirSync(join(directory, name)).map((file) => join(name, file))),
  ];
}

/** Every process that was told of the data directory, in its command line or its environment. */
function processesOf(dataDir: string): string[] {
  return readdirSync('/proc')
    .filter((pid) => /^\d+$/.test(pid))
    .filter((pid) => ['cmdline', 'environ'].some((file) => read(`/proc/${pid}/${file}`).includes(dataDir)))
    .map((pid) => read(`/proc/${pid}/cmdline`).replaceAll('\0', ' '));
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

/** A client of the server whose address was printed, with the key that lies in the data directory. */
function clientOf(printed: string, { dataDir }: Place): Client {
  const endpoint = /Assay serves +(\S+)/.exec(printed)?.[1] ?? '';
  const client = createClient({ endpoint, apiKey: read(join(dataDir, 'key')).trim() });
  cleanups.push(() => client.close());
  return client;
}

const verdicts = (printed: string): string[] => [...printed.matchAll(/verdict (\w+)/g)].map(([, name]) => name ?? '');

describe('set-up', () => {
  const fresh = makePlace();

  test('twice at once on an empty directory builds once and tells both the same', async () => {
    const both = [launch(script('setup'), fresh), launch(script('setup'), fresh)];
    const ends = await Promise.all(both.map(({ ended }) => ended));
    expect(ends.map(({ code }) => code)).toEqual([0, 0]);
    expect(ends[0]?.stdout).toBe(ends[1]?.stdout);
    expect(JSON.parse(ends[0]?.stdout ?? '')).toMatchObject({
      dataDir: fresh.dataDir,
      guestPath: expect.stringContaining(join(fresh.dataDir, 'guest')),
    });
    expect(
      ends
        .map(({ stderr }) => stderr)
        .join('')
        .match(/✓ Building guest/g),
    ).toHaveLength(1);
    expect(await leftOf(fresh)).toEqual([]);
  });

  test('leads to a demo that fails, then passes, a server that answers, and nothing after Ctrl-C', async () => {
    const manifests = shareManifests(inject('setup').dataDir, join(fresh.dataDir, 'worker'));
    cleanups.push(() => manifests.collect());
    const start = launch(script('start'), fresh);
    const printed = await start.printed(/^Serving /m);
    expect(verdicts(printed)).toEqual(['FAILED', 'PASSED']);
    const client = clientOf(printed, fresh);
    expect((await client.server.info()).capabilities).toContain('verification');
    // A session that is open when the end comes.
    await client.sessions.create({});
    expect((await leftOf(fresh)).join('\n')).toMatch(/nats-server .*nats\.conf/);
    start.interrupt();
    expect(await start.ended).toMatchObject({ code: 0, stderr: '' });
    expect(await leftOf(fresh)).toEqual([]);
  });

  /** A place where all is made already that takes seconds of CPU. */
  function makeBuiltPlace(): Place {
    const place = makePlace();
    mkdirSync(join(place.dataDir, 'worker'));
    for (const name of ['guest', 'isolated', 'compiled', 'worker/manifests']) {
      symlinkSync(join(fresh.dataDir, name), join(place.dataDir, name));
    }
    return place;
  }

  test('stops all that npm start began when TERM is sent to npm alone', async () => {
    const place = makeBuiltPlace();
    const npm = launch(['npm', '--prefix', join(scripts, '..'), 'start'], place, {
      npm_config_update_notifier: 'false',
    });
    await npm.printed(/Assay serves/);
    expect(processesOf(place.dataDir).join('\n')).toContain('nats-server');
    npm.terminate();
    await expect.poll(() => processesOf(place.dataDir)).toEqual([]);
  });

  test('tells of a variable that is no setting, with the name that was probably meant', async () => {
    const start = launch(script('start'), makeBuiltPlace(), { ASSAY_LIMT_TTL_SECONDS: '60' });
    await start.printed(/Assay serves/);
    start.interrupt();
    const stderr = 'ASSAY_LIMT_TTL_SECONDS is not a setting; did you mean ASSAY_LIMIT_TTL_SECONDS?\n';
    expect(await start.ended).toMatchObject({ code: 0, stderr });
  });

  test('uses the broker that NATS_URL names, and leaves it running', async () => {
    const place = makeBuiltPlace();
    const nats = await startNats();
    cleanups.push(() => nats.stop());
    const { user, password } = nats;
    const natsUrl = nats.url.replace('//', `//${user}:${encodeURIComponent(password)}@`);
    const start = launch(script('start'), place, { NATS_URL: natsUrl });
    const printed = await start.printed(/^Serving /m);
    expect(verdicts(printed)).toEqual(['FAILED', 'PASSED']);
    expect((await leftOf(place)).join('\n')).not.toContain('nats-server');
    start.interrupt();
    expect(await start.ended).toMatchObject({ code: 0, stderr: '' });
    expect(await leftOf(place)).toEqual([]);
    const connection = await connect({ servers: nats.url, user, pass: password });
    cleanups.push(() => connection.close());
    const streams = await (await jetstreamManager(connection)).streams.names().next();
    expect(streams).toEqual(expect.arrayContaining(['ASSAY_EVENTS', 'KV_assay_sessions']));
  });
});

describe('the doctor', () => {
  interface Finding {
    readonly name: string;
    readonly state: string;
    readonly found: string;
    readonly type?: string;
  }

  /** A place that another set-up of the run has filled. */
  const filled = (): Place => ({ ...makePlace(), dataDir: inject('setup').dataDir });

  async function examined(command: string[], env?: Record<string, string>) {
    const { code, stdout } = await launch([...command, '--json'], filled(), env).ended;
    const { ok, findings } = JSON.parse(stdout) as { ok: boolean; findings: Finding[] };
    const missing = findings.filter(({ state }) => state === 'missing').map(({ name, type }) => [name, type]);
    return { code, ok, missing, findings };
  }

  test('finds all that is there, and where', async () => {
    const { code, ok, missing, findings } = await examined(script('doctor'));
    expect({ code, ok, missing }).toEqual({ code: 0, ok: true, missing: [] });
    const found = Object.fromEntries(findings.map((each) => [each.name, each.found]));
    const { dockerSocket, natsServer, baseImage, guestPath } = inject('setup');
    expect(found['docker engine']).toContain(dockerSocket);
    expect(found['nats-server']).toContain(natsServer);
    expect(found).toMatchObject({ 'base image': baseImage, guest: guestPath });
  });

  test('tells a person the same in words', async () => {
    const { code, stdout } = await launch(script('doctor'), makePlace()).ended;
    expect(code).toBe(1);
    expect(stdout).toMatch(/^✓ docker engine/m);
    expect(stdout).toMatch(/^✗ guest +not built yet\n +type: npm start$/m);
    expect(stdout).toContain('Something is missing');
  });

  test('says of an engine of your own that does not answer what npm start says', async () => {
    const place = makePlace();
    const env = { DOCKER_HOST: `unix://${place.directory}/none.sock` };
    const type = 'start that engine, or: unset DOCKER_HOST';
    const { code, ok, missing } = await examined(script('doctor'), env);
    expect({ code, ok }).toEqual({ code: 1, ok: false });
    expect(missing).toEqual([
      ['docker engine', type],
      ['base image', type],
    ]);
    const start = await launch(script('start'), place, env).ended;
    expect(start).toMatchObject({ code: 1, stderr: expect.stringContaining(`type: ${type}`) });
  });

  test.skipIf(process.getuid?.() !== 0)(
    'misses a nats-server that is not installed, and knows who installs it',
    async () => {
      // Set-up looks beyond PATH: a mount that only this process sees hides the program.
      const hidden = `mount --bind /dev/null ${inject('setup').natsServer} && exec "$@"`;
      const without = ['unshare', '--mount', '--propagation', 'private', 'sh', '-c', hidden, 'sh', ...script('doctor')];
      const { code, ok, missing } = await examined(without);
      expect({ code, ok, missing }).toEqual({ code: 1, ok: false, missing: [['nats-server', 'npm start']] });
    },
  );
});
