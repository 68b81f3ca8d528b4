import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { freePort } from '../../scripts/stack/port.mjs';
import { startStack } from '../../scripts/stack.mjs';
import { runDirectory } from '../run.ts';
import { type NatsProcess, startNats } from '../shared/store/nats-process.ts';
import { adminKey } from './running-service.ts';

let nats: NatsProcess;
let directory: string;
beforeAll(async () => {
  nats = await startNats();
  directory = mkdtempSync(join(runDirectory(), 'sessions-'));
});
afterAll(async () => {
  await nats.stop();
  rmSync(directory, { recursive: true });
});

function start(env: Record<string, string>, main = 'services/sessions/main.ts') {
  const child = spawn(process.execPath, [main], {
    env: { PATH: process.env.PATH, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '';
  child.stderr.on('data', (chunk) => {
    said += chunk;
  });
  // Not when it exits, which may be heard of before the last that it said.
  return { child, said: () => said, exited: once(child, 'close') };
}

test('every bad setting is named at once', async () => {
  const { exited, said } = start({
    ASSAY_LISTEN: 'nonsense',
    ASSAY_LIMIT_COMMAND_BYTES: '-1',
    ASSAY_LOG_LEVEL: 'loud',
  });
  expect((await exited)[0]).toBe(78);
  for (const name of ['ASSAY_LISTEN', 'ASSAY_NATS_URL', 'ASSAY_NATS_AUTH_FILE', 'ASSAY_WORKER_TOKEN_FILE']) {
    expect(said()).toContain(`  ${name}: expected`);
  }
  expect(said()).toContain('ASSAY_LIMIT_COMMAND_BYTES: expected at least 1 (found: "-1")');
  expect(said()).toContain('ASSAY_LOG_LEVEL');
});

test.each(['services/sessions/main.ts', 'services/sandbox-worker/main.ts'])(
  '%s that lacks a setting names one that was misspelt',
  async (main) => {
    const { exited, said } = start({ ASSAY_NATS_ULR: nats.url }, main);
    expect((await exited)[0]).toBe(78);
    expect(said()).toMatch(/^ {2}ASSAY_NATS_URL: expected .* \(found: not set\)$/m);
    expect(said()).toMatch(/^ {2}ASSAY_NATS_ULR is not a setting; did you mean ASSAY_NATS_URL\?$/m);
  },
);

test('a service that starts with a misspelt setting says so in its log and on stderr', async () => {
  const { child, said, exited } = start({ ...settings(), ASSAY_LIMT_TTL_SECONDS: '60' });
  let log = '';
  for await (const line of createInterface({ input: child.stdout })) {
    log += line;
    if (line.includes('"serving"')) child.kill('SIGTERM');
  }
  await exited;
  const sentence = 'ASSAY_LIMT_TTL_SECONDS is not a setting; did you mean ASSAY_LIMIT_TTL_SECONDS?';
  expect(log).toContain(sentence);
  expect(said()).toBe(`${sentence}\n`);
});

test('a stack with bad settings does not start, and names one of them', async () => {
  const bad = { worker: { ASSAY_DEFAULT_CPUS: '-1' }, sessions: { ASSAY_LIMIT_TTL_SECONDS: 'for ever' } };
  const starting = startStack({ setup: inject('setup'), dataDir: join(directory, 'stack'), env: bad });
  await expect(starting).rejects.toThrow(
    /^(worker|sessions) was given what it cannot use\n {2}ASSAY_\w+: expected .*\n {2}type: less docs\/settings\.md$/,
  );
});

test('a stack says nothing to another program that has taken its port, and names it', async () => {
  const dataDir = join(directory, 'robbed stack');
  const port = await freePort();
  let asked = 0;
  // It answers every request as a healthy service does.
  const other = createServer((_request, response) => {
    asked += 1;
    response.end();
  });
  const starting = startStack({ setup: inject('setup'), dataDir, listen: `127.0.0.1:${port}` });
  const started = starting.then((stack) => stack.stop()).then(() => 'started');
  started.catch(() => {});
  // Written when the port was found free, seconds before the service listens on it.
  await expect.poll(() => existsSync(join(dataDir, 'nats', 'nats.conf')), { interval: 5 }).toBe(true);
  other.listen(port, '127.0.0.1');
  await expect(started).rejects.toThrow(
    new RegExp(
      `^127\\.0\\.0\\.1:${port} is held by .+ \\(process ${process.pid}\\)\\n +type: ASSAY_LISTEN=\\S+ npm start$`,
    ),
  );
  expect(asked).toBe(0);
  other.close();
});

test('a stack whose port is taken from the start names who has it', async () => {
  const other = createServer().listen(0, '127.0.0.1');
  await once(other, 'listening');
  const { port } = other.address() as AddressInfo;
  const dataDir = join(directory, 'late stack');
  const starting = startStack({ setup: inject('setup'), dataDir, listen: `127.0.0.1:${port}` });
  await expect(starting).rejects.toThrow(`127.0.0.1:${port} is held by`);
  other.close();
});

test('a stack that is not ready in the time it is given is stopped, and the end of each log is told', async () => {
  const dataDir = join(directory, 'slow stack');
  const starting = startStack({ setup: inject('setup'), dataDir, readyWithinMs: 1 });
  const started = starting.then((stack) => stack.stop()).then(() => 'started');
  await expect(started).rejects.toThrow(/^not ready; the end of the logs\n {2}nats /);
});

/** What a service needs to start with the test's broker. */
function settings(): Record<string, string> {
  const file = (name: string, text: string): string => {
    writeFileSync(join(directory, name), text);
    return join(directory, name);
  };
  return {
    ASSAY_LISTEN: '127.0.0.1:0',
    ASSAY_NATS_URL: nats.url,
    ASSAY_NATS_AUTH_FILE: file('auth.json', JSON.stringify({ user: nats.user, password: nats.password })),
    ASSAY_WORKER_TOKEN_FILE: file('token', 'a worker token'),
    ASSAY_BOOTSTRAP_KEY_FILE: file('key', adminKey),
    ASSAY_LOG_LEVEL: 'trace',
  };
}

test('a service that starts before its broker says so in its log and on stderr, and serves when the broker is there', async () => {
  await nats.kill();
  const { child, said, exited } = start(settings());
  let log = '';
  for await (const line of createInterface({ input: child.stdout })) {
    log += line;
    if (line.includes('is not ready') && said() === '') await expect.poll(said).toContain('is not ready');
    if (line.includes('retry in 250 ms')) await nats.start();
    if (line.includes('"serving"')) child.kill('SIGTERM');
  }
  await exited;
  expect(log).toContain('is not ready');
});

test.each(['SIGTERM', 'SIGINT'] as const)('%s stops it with exit status 0 and no secret in its log', async (signal) => {
  const { child, exited } = start(settings());
  let log = '';
  for await (const line of createInterface({ input: child.stdout })) {
    log += line;
    const port = (JSON.parse(line) as { port?: number }).port;
    if (port === undefined) continue;
    const response = await fetch(`http://127.0.0.1:${port}/assay.v1.SessionService/ListSessions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${adminKey}` },
      body: '{}',
    });
    expect(response.status).toBe(200);
    child.kill(signal);
  }
  expect((await exited)[0]).toBe(0);
  expect(log).toContain('ListSessions');
  for (const secret of [adminKey, nats.password, 'a worker token']) expect(log).not.toContain(secret);
});
