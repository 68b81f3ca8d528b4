import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Network, Session } from '../../clients/typescript/index.ts';
import { runDirectory } from '../run.ts';
import { createEngineProbe } from './engine-probe.ts';
import { startTestStack, type TestStack } from './stack.ts';
import { makeStandIns, type StandIns } from './stand-ins.ts';
import { chooseMetricsPlace, type MetricsPlace } from './worker-metrics.ts';

let standIns: StandIns;
let hostService: Server;
let hostPort: number;
let stack: TestStack;
const sessions: Partial<Record<'none' | 'egress' | 'full' | 'neighbour', Session>> = {};
let neighbourAddress: string;
const hostsFile = join(runDirectory(), `hosts-${process.pid}`);

const addresses = Object.values(networkInterfaces()).flatMap((found) => found ?? []);
const hostAddress = addresses.find(({ family, internal }) => family === 'IPv4' && !internal)?.address ?? '127.0.0.1';
const hostAddress6 = addresses.find((it) => it.family === 'IPv6' && !it.internal && it.scopeid === 0)?.address ?? '::1';

const networks: Record<string, Network> = {
  none: { mode: 'NONE' },
  egress: { mode: 'EGRESS', allow: ['public.test:8080', '*.forbidden.test:8080'] },
  full: { mode: 'FULL' },
  neighbour: { mode: 'FULL' },
};

function session(name: keyof typeof sessions): Session {
  const found = sessions[name];
  if (found === undefined) throw new Error(`no session ${name}`);
  return found;
}

/** The first process of a session's container, as the host sees it. */
async function pidOf(name: keyof typeof sessions): Promise<number> {
  const container = await createEngineProbe().containerOf(session(name).id);
  return (await container.inspect()).State.Pid;
}

async function addressOf(name: keyof typeof sessions): Promise<string> {
  const args = [`--net=/proc/${await pidOf(name)}/ns/net`, 'ip', '-4', '-o', 'addr', 'show', 'eth0'];
  return /inet ([\d.]+)\//.exec(execFileSync('nsenter', args, { encoding: 'utf8' }))?.[1] ?? '';
}

async function output(name: keyof typeof sessions, command: string | string[]): Promise<string> {
  const { stdout, stderr } = await session(name).run(command);
  return `${stdout}${stderr}`;
}

/** What a session gets from a URL: the body, or curl's error. */
async function get(name: keyof typeof sessions, url: string, options = ''): Promise<string> {
  const { stdout, stderr } = await session(name).run(`curl -sS -g -m 8 ${options} '${url}'`);
  return stdout.length === 0 ? `error: ${String(stderr).trim()}` : String(stdout).trim();
}

beforeAll(async () => {
  standIns = await makeStandIns();
  hostService = createServer((_, response) => response.end('host service')).listen(0, '::');
  await once(hostService, 'listening');
  hostPort = (hostService.address() as { port: number }).port;
  stack = await startTestStack({
    env: {
      worker: { ASSAY_EGRESS_HOSTS_FILE: hostsFile, ASSAY_EGRESS_ALLOW: 'registry.test:8080' },
      sessions: { ASSAY_LIMIT_EGRESS_HOSTS: '*.test:*, localhost:*' },
    },
  });
  for (const [name, network] of Object.entries(networks)) {
    sessions[name as keyof typeof sessions] = await stack.client.sessions.create({ network });
  }
  neighbourAddress = await addressOf('neighbour');
  await session('neighbour').run('cd /tmp && nohup python3 -m http.server 8080 >/dev/null 2>&1 &');
  for (const name of ['full', 'neighbour'] as const) standIns.routeFor(await addressOf(name));
  const names = {
    'public.test': standIns.publicAddress,
    'registry.test': standIns.publicAddress,
    'unlisted.test': standIns.publicAddress,
    'metadata.forbidden.test': standIns.metadataAddress,
    'private.forbidden.test': standIns.privateAddress,
    'host.forbidden.test': hostAddress,
    'host6.forbidden.test': hostAddress6,
    'loopback.forbidden.test': '127.0.0.1',
    'loopback6.forbidden.test': '::1',
    'mapped.forbidden.test': '::ffff:169.254.169.254',
    'session.forbidden.test': neighbourAddress,
  };
  writeFileSync(
    hostsFile,
    Object.entries(names)
      .map(([name, address]) => `${address} ${name}\n`)
      .join(''),
  );
});

afterAll(async () => {
  await stack?.stop();
  hostService?.close();
  standIns?.remove();
  execFileSync('rm', ['-f', hostsFile]);
});

interface Target {
  readonly name: string;
  readonly url: () => string;
  /** The only mode in which it answers, if there is one. */
  readonly reachable?: 'full';
}

const targets: Target[] = [
  { name: 'the public internet', url: () => `http://${standIns.publicAddress}:8080/`, reachable: 'full' },
  { name: 'the metadata service', url: () => `http://${standIns.metadataAddress}:8080/latest/meta-data` },
  { name: 'a private address', url: () => `http://${standIns.privateAddress}:8080/` },
  { name: 'the internet over IPv6', url: () => `http://[${standIns.ipv6Address}]:8080/` },
  { name: 'a service of the host, at its address', url: () => `http://${hostAddress}:${hostPort}/` },
  { name: 'a service of the host, at its IPv6 address', url: () => `http://[${hostAddress6}]:${hostPort}/` },
  { name: "a service of the host, at Docker's gateway", url: () => `http://172.17.0.1:${hostPort}/` },
  { name: 'a service of the host, on the loopback', url: () => `http://127.0.0.1:${hostPort}/` },
  { name: 'a service of the host, on the IPv6 loopback', url: () => `http://[::1]:${hostPort}/` },
  { name: 'a service of the host, as 0.0.0.0', url: () => `http://0.0.0.0:${hostPort}/` },
  { name: 'another session', url: () => `http://${neighbourAddress}:8080/` },
];
test('the stand-ins and the service of the host are there to be reached', async () => {
  const seen = await Promise.all([
    fetch(`http://${standIns.publicAddress}:8080/`).then((response) => response.text()),
    fetch(`http://[${standIns.ipv6Address}]:8080/`).then((response) => response.text()),
    fetch(`http://${hostAddress}:${hostPort}/`).then((response) => response.text()),
    fetch(`http://[${hostAddress6}]:${hostPort}/`).then((response) => response.text()),
  ]);
  expect(seen).toEqual(['stand-in', 'stand-in', 'host service', 'host service']);
  await expect.poll(() => get('neighbour', 'http://127.0.0.1:8080/')).toContain('Directory');
});

for (const { name, url, reachable } of targets) {
  for (const mode of ['none', 'egress', 'full'] as const) {
    const answers = reachable === mode;
    test(`with the network ${mode}, ${name} ${answers ? 'answers' : 'does not answer'}`, async () => {
      const got = await get(mode, url(), "--noproxy '*'");
      if (answers) expect(got).toBe('stand-in');
      else expect(got).toMatch(/^error: curl: \((7|28)\)/);
    });
  }
}

test('only the network full has an interface beside the loopback', async () => {
  expect(await output('none', 'ls /sys/class/net')).toBe('lo\n');
  expect(await output('egress', 'ls /sys/class/net')).toBe('lo\n');
  expect(await output('full', 'ls /sys/class/net')).toBe('eth0\nlo\n');
});

describe('with the network egress, through the proxy', () => {
  test.each(['http://public.test:8080/', 'http://PUBLIC.test.:8080/', 'http://registry.test:8080/'])(
    '%s, which is on the list, answers',
    async (url) => expect(await get('egress', url)).toBe('stand-in'),
  );

  test('a tunnel to a listed host carries what is said in it', async () => {
    expect(await get('egress', 'http://public.test:8080/', '--proxytunnel')).toBe('stand-in');
  });

  test('a host that is not on the list is refused, with its name and what to type', async () => {
    const message =
      "host unlisted.test:8080 is not on the session's allow-list; add it with --allow unlisted.test:8080";
    expect(await get('egress', 'http://unlisted.test:8080/')).toContain(message);
    const said = await output('egress', 'curl -sS -v -m 8 https://unlisted.test:8080/');
    expect(said).toContain(`< HTTP/1.1 403 ${message}`);
  });

  test.each(['metadata', 'private', 'host', 'host6', 'loopback', 'loopback6', 'mapped', 'session'])(
    'a listed name of a closed address is refused: %s',
    async (name) => {
      const got = await get('egress', `http://${name}.forbidden.test:8080/`);
      expect(got).toMatch(new RegExp(`^host ${name}\\.forbidden\\.test has the address \\S+, which is `));
    },
  );

  test.each(['169.254.169.254', '127.0.0.1', '[::1]', '0x7f000001'])('an address is refused: %s', async (address) => {
    expect(await get('egress', `http://${address}:8080/`, "--noproxy ''")).toMatch(/is an address; only host names/);
  });

  test("Python's own client goes through it", async () => {
    const python = `import urllib.request; print(urllib.request.urlopen("http://public.test:8080/").read().decode())`;
    expect(await output('egress', ['python3', '-c', python])).toBe('stand-in\n');
  });

  test("a session's programs cannot take the proxy's place", async () => {
    const said = await output('egress', [
      'python3',
      '-c',
      `import socket
for address in ("127.0.0.1", "0.0.0.0"):
    try: socket.socket().bind((address, 3128)); print("bound")
    except OSError as error: print(error.errno)`,
    ]);
    expect(said).toBe('98\n98\n');
  });
});

describe('with the network full', () => {
  test('the session asks the name servers of the host, and no stub on its loopback', async () => {
    expect(await output('full', 'cat /etc/resolv.conf')).not.toContain('127.0.0.');
  });

  test('packet rules on the host hold back what a sandbox would let out', async () => {
    const pid = await pidOf('full');
    const inside = (...args: string[]) =>
      execFileSync('nsenter', [`--net=/proc/${pid}/ns/net`, 'ip', ...args], { encoding: 'utf8' });
    for (const line of inside('route', 'show', 'type', 'prohibit').trim().split('\n')) {
      inside('route', 'del', ...line.trim().split(/\s+/));
    }
    const gateway = /via ([\d.]+)/.exec(inside('route', 'show', 'default'))?.[1] ?? '';
    const closed = [
      `http://${standIns.metadataAddress}:8080/`,
      `http://${standIns.privateAddress}:8080/`,
      `http://${hostAddress}:${hostPort}/`,
      `http://${gateway}:${hostPort}/`,
      `http://172.17.0.1:${hostPort}/`,
      `http://${neighbourAddress}:8080/`,
    ];
    const got = await Promise.all(closed.map((url) => get('full', url, '-m 3')));
    expect(got.map((text) => text.slice(0, 17))).toEqual(closed.map(() => 'error: curl: (28)'));
    expect(await get('full', `http://${standIns.publicAddress}:8080/`)).toBe('stand-in');
    // And it is they that hold it back: without them the stand-in for the metadata service answers.
    const chain = /-N (ASSAY-\w+-IN)/.exec(rulesOf(stack.stack.installation))?.[1] ?? '';
    execFileSync('iptables', ['-w', '-t', 'mangle', '-I', chain, '-j', 'RETURN']);
    expect(await get('full', `http://${standIns.metadataAddress}:8080/`)).toBe('stand-in');
    execFileSync('iptables', ['-w', '-t', 'mangle', '-D', chain, '-j', 'RETURN']);
    expect(await get('full', `http://${standIns.metadataAddress}:8080/`, '-m 3')).toContain('(28)');
  });

  test('nobody connects to a session, not even the host', async () => {
    const attempt = fetch(`http://${neighbourAddress}:8080/`, { signal: AbortSignal.timeout(2_000) });
    await expect(attempt).rejects.toThrow();
  });
});

/** The chain of the installation, by the mark of its rules. */
function rulesOf(installation: string): string {
  const all = execFileSync('iptables', ['-w', '-t', 'mangle', '-S'], { encoding: 'utf8' });
  const chain = new RegExp(`--comment "?assay-${installation}"? -j (ASSAY-\\w+-IN)`).exec(all)?.[1];
  return all
    .split('\n')
    .filter((line) => chain !== undefined && line.includes(chain))
    .join('\n');
}

test('a host beyond what the operator permits is refused, with its place in the list', async () => {
  const network = { mode: 'EGRESS', allow: ['public.test', 'example.org'] } as const;
  await expect(stack.client.sessions.create({ network })).rejects.toMatchObject({
    reason: 'INVALID_FIELD',
    metadata: { field: 'network.allow[1]' },
  });
});

describe('a warm session', () => {
  let warm: TestStack;
  let metrics: MetricsPlace;
  beforeAll(async () => {
    metrics = await chooseMetricsPlace();
    const worker = { ...metrics.env, ASSAY_WARM_POOL: 'base=1', ASSAY_EGRESS_HOSTS_FILE: hostsFile };
    warm = await startTestStack({ env: { worker } });
  });
  afterAll(() => warm?.stop());

  test.each(['EGRESS', 'FULL'] as const)('gets the network that it asks for: %s', async (mode) => {
    await expect.poll(async () => (await metrics.scrape()).get('warm_pool_sandboxes')).toBe(1);
    const network = { mode, ...(mode === 'EGRESS' ? { allow: ['public.test:8080'] } : {}) };
    const made = await warm.client.sessions.create({ network });
    expect(made.info).toMatchObject({ warm: true, network });
    const url = mode === 'FULL' ? `http://${standIns.publicAddress}:8080/` : 'http://public.test:8080/';
    expect(String((await made.run(['curl', '-sS', '-m', '8', url])).stdout)).toBe('stand-in');
    await made.close();
  });
});

test('a worker that was killed opens the same ways again', async () => {
  await stack.stack.kill('worker', 'SIGKILL');
  await expect.poll(() => get('egress', 'http://public.test:8080/')).toBe('stand-in');
  expect(await get('egress', 'http://unlisted.test:8080/')).toContain('is not on');
  expect(await get('full', `http://${standIns.publicAddress}:8080/`)).toBe('stand-in');
  expect(await get('neighbour', `http://${standIns.metadataAddress}:8080/`)).toMatch(/^error: curl: \(7\)/);
});

test('the rules go with the last session that needs them, when the worker stops', async () => {
  const { installation } = stack.stack;
  expect(rulesOf(installation)).not.toBe('');
  await stack.stack.halt('worker', 'SIGTERM');
  expect(rulesOf(installation)).toBe('');
  for (const program of ['iptables-save', 'ip6tables-save']) {
    expect(execFileSync(program, { encoding: 'utf8' })).not.toMatch(new RegExp(`assay-${installation}(?![\\w-])`));
  }
  await stack.stack.start('worker');
  await stack.stack.ready();
});
