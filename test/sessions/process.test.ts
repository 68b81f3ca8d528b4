import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
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

function start(env: Record<string, string>) {
  const child = spawn(process.execPath, ['services/sessions/main.ts'], {
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

test('a stack with bad settings does not start, and names one of them', async () => {
  const bad = { worker: { ASSAY_DEFAULT_CPUS: '-1' }, sessions: { ASSAY_LIMIT_TTL_SECONDS: 'for ever' } };
  const starting = startStack({ setup: inject('setup'), dataDir: join(directory, 'stack'), env: bad });
  await expect(starting).rejects.toThrow(
    /^(worker|sessions) was given what it cannot use\n {2}ASSAY_\w+: expected .*\n {2}type: less docs\/settings\.md$/,
  );
});

test('a stack that is not ready in the time it is given is stopped, and the end of each log is told', async () => {
  const dataDir = join(directory, 'slow stack');
  const starting = startStack({ setup: inject('setup'), dataDir, readyWithinMs: 1 });
  const started = starting.then((stack) => stack.stop()).then(() => 'started');
  await expect(started).rejects.toThrow(/^not ready; the end of the logs\n {2}nats /);
});

test.each(['SIGTERM', 'SIGINT'] as const)('%s stops it with exit status 0 and no secret in its log', async (signal) => {
  const file = (name: string, text: string): string => {
    writeFileSync(join(directory, name), text);
    return join(directory, name);
  };
  const { child, exited } = start({
    ASSAY_LISTEN: '127.0.0.1:0',
    ASSAY_NATS_URL: nats.url,
    ASSAY_NATS_AUTH_FILE: file('auth.json', JSON.stringify({ user: nats.user, password: nats.password })),
    ASSAY_WORKER_TOKEN_FILE: file('token', 'a worker token'),
    ASSAY_BOOTSTRAP_KEY_FILE: file('key', adminKey),
    ASSAY_LOG_LEVEL: 'trace',
  });
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
