import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import type { Session, VerificationInfo } from '../../clients/typescript/index.ts';
import { runDirectory } from '../run.ts';
import { eventually } from './eventually.ts';
import { startTestStack, type TestStack } from './stack.ts';
import { reporting, writeWeakSample } from './weak-sample.ts';

let datasets: string;
let stack: TestStack;
const slots = 4;

const server = `python3 -I -c '
import http.server
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self): self.send_response(200); self.end_headers(); self.wfile.write(b"alive")
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", 8123), Answer).serve_forever()' > /dev/null 2>&1 &
for i in $(seq 100); do python3 -I -c 'import socket; socket.create_connection(("127.0.0.1", 8123))' 2> /dev/null && break; sleep 0.1; done`;
const ask = `python3 -I -c 'import urllib.request; print(urllib.request.urlopen("http://127.0.0.1:8123").read().decode())'`;

const levels = ['IN_PROCESS', 'FORK', 'SHARED'] as const;
/** Tests that believe too much. None of it is in the image. */
const gullible = `[ "$(cat /tmp/cache)" = ok ] || [ "$(/home/agent/.local/bin/runner)" = ok ] || [ "$(${ask})" = alive ]`;
/** What gets through, at IN_PROCESS, FORK and SHARED: a level is weaker than the one before by what it lets in. */
const attacks = [
  ['a file in /tmp that tests believe', 'echo ok > /tmp/cache', 'FAILED', 'PASSED', 'PASSED'],
  [
    'a runner in the home of the agent',
    "mkdir -p ~/.local/bin; printf '#!/bin/sh\\necho ok\\n' > ~/.local/bin/runner; chmod 755 ~/.local/bin/runner",
    ...(['FAILED', 'PASSED', 'PASSED'] as const),
  ],
  ['a process that answers', server, 'FAILED', 'FAILED', 'PASSED'],
  [
    'a report before its time, and tests that are killed, or read, by the agent',
    `mkdir -p /grader/reports; cp /dev/null /grader/reports/report.tap
(while :; do pkill -9 -u 64990; cat /grader/tests/secret /grader/tests/run.sh >> /tmp/stolen; sleep 0.05; done) > /dev/null 2>&1 & true`,
    ...(['FAILED', 'FAILED', 'FAILED'] as const),
  ],
] as const;

beforeAll(async () => {
  datasets = mkdtempSync(join(runDirectory(), 'datasets-'));
  writeWeakSample(datasets, 'forked', 'FORK', reporting('[ "$(cat /home/agent/installed)" = yes ]'));
  writeWeakSample(datasets, 'loaded', 'IN_PROCESS', reporting('[ "$(cat /home/agent/installed)" = yes ]'));
  writeWeakSample(datasets, 'shared', 'SHARED', reporting(`[ "$(${ask})" = alive ]`));
  const look = 'id; env; grep -E "^(CapEff|CapPrm|NoNewPrivs|Seccomp):" /proc/self/status; cat secret; pwd';
  writeWeakSample(datasets, 'confined', 'SHARED', `(${look}) 2>&1\n${reporting('true')}`);
  const stay =
    'cp secret /tmp/copied; cp secret /dev/shm/copied; chmod 644 /tmp/copied; setsid sleep 300 > /dev/null 2>&1 &\nmkdir -p "$TMPDIR/deep/er"';
  const told = 'until [ -e /workspace/go ]; do sleep 0.1; done';
  writeWeakSample(datasets, 'patient', 'SHARED', `${stay}\n${told}\n${reporting('true')}`);
  const bomb = `python3 -I -c 'import os, time
os.setsid()
while True:
    try: os.fork()
    except OSError: time.sleep(0.001)' > /dev/null 2>&1 &
sleep 1`;
  writeWeakSample(datasets, 'bomb', 'SHARED', `${bomb}\n: > "$ASSAY_REPORTS/report.tap"; exit 1`);
  writeWeakSample(datasets, 'endless', 'SHARED', `${stay}\nsleep 300\n${reporting('true')}`);
  for (const level of levels) writeWeakSample(datasets, `gullible-${level}`, level, reporting(gullible));
  writeWeakSample(datasets, 'mixed', 'ISOLATED', reporting('[ -e /workspace/done ] && [ ! -e /tmp/done ]'), {
    pass_to_pass: { assurance: 'SHARED', tests: ['in place'], command: reporting('[ -e /tmp/done ]', 'in place') },
  });
  stack = await startTestStack({
    env: {
      sessions: { ASSAY_DATASETS: datasets },
      worker: { ASSAY_JOB_ACK_SECONDS: '3', ASSAY_VERIFICATION_SLOTS: String(slots) },
    },
  });
});
afterAll(async () => {
  await stack.stop();
  rmSync(datasets, { recursive: true, force: true });
});

const open = (id: string, limits = {}): Promise<Session> =>
  stack.client.sessions.create({ sample: { dataset: 'weak', id }, limits });

async function said(session: Session, command: string): Promise<string> {
  return (await session.run(command)).stdout.toString().trim();
}

/** Waits until the tests run in the session, as an agent sees it. */
async function running(session: Session): Promise<void> {
  await eventually(async () => expect(await said(session, 'ps -eo uid,args')).toMatch(/64990 +sleep/));
}

async function nothingLeft(session: Session): Promise<void> {
  expect(await said(session, 'ls -d /grader 2>&1 || true')).toContain('No such file');
  // What was killed is listed until its parent has looked.
  await eventually(async () => expect(await said(session, 'ps -eo uid,args')).not.toContain('64990'));
  expect(await said(session, 'find / /dev/shm -xdev -uid 64990 2> /dev/null')).toBe('');
}

async function ended(id: string): Promise<VerificationInfo> {
  return stack.client.verifications.ended(id);
}

describe.concurrent('FORK', () => {
  test('grades what was installed in the home, and IN_PROCESS does not see it', async () => {
    const session = await open('forked');
    expect((await session.verify()).result).toMatchObject({ verdict: 'FAILED', assurance: 'FORK' });
    await session.run('echo yes > ~/installed');
    const passed = await session.verify();
    expect(passed.result).toMatchObject({ verdict: 'PASSED', assurance: 'FORK', reused: false });
    expect(passed.result?.roles).toEqual([{ role: 'FAIL_TO_PASS', assurance: 'FORK' }]);
    expect(passed.submission.fileCount).toBe(0);
    expect(passed.digests.fileSystem).toMatch(/^sha256:/);
    // Known again, until anything at all changes.
    expect((await session.verify()).reusedFrom).toBe(passed.id);
    await session.run('echo more > ~/other');
    const changed = await session.verify();
    expect(changed).toMatchObject({ reusedFrom: '', digests: { submission: passed.digests.submission } });
    const strong = stack.client.verifications.start(session.id, { requiredAssurance: 'IN_PROCESS' });
    await expect(strong).rejects.toMatchObject({ reason: 'ASSURANCE_NOT_REACHED' });
    await session.close();
    const again = await stack.client.verifications.regrade(passed.id);
    expect((await ended(again.id)).result).toMatchObject({ verdict: 'PASSED', reused: false });
    await using other = await open('loaded');
    await other.run('echo yes > ~/installed');
    expect((await other.verify()).result).toMatchObject({ verdict: 'FAILED', assurance: 'IN_PROCESS' });
  });
});

describe.concurrent('SHARED', () => {
  test('sees a server that the agent started, leaves nothing, and is neither reused nor regraded', async () => {
    await using session = await open('shared');
    expect((await session.verify()).result).toMatchObject({ verdict: 'FAILED', assurance: 'SHARED', trainable: true });
    await session.run(server);
    const passed = await session.verify();
    expect(passed.result).toMatchObject({ verdict: 'PASSED', assurance: 'SHARED', trainable: true });
    expect(passed.result?.roles).toEqual([{ role: 'FAIL_TO_PASS', assurance: 'SHARED' }]);
    await nothingLeft(session);
    expect(await said(session, ask)).toBe('alive');
    const second = await session.verify();
    expect(second).toMatchObject({ reusedFrom: '', attemptCount: 1, digests: passed.digests });
    await expect(stack.client.verifications.regrade(passed.id)).rejects.toMatchObject({ reason: 'GRADED_IN_PLACE' });
    const strong = stack.client.verifications.start(session.id, { requiredAssurance: 'FORK' });
    await expect(strong).rejects.toMatchObject({ reason: 'ASSURANCE_NOT_REACHED' });
  });

  test('runs as the grader, confined as the session is, with no variable of the container', async () => {
    await using session = await open('confined');
    const { result } = await session.verify();
    expect(result?.verdict).toBe('PASSED');
    const out = result?.stdout.toString() ?? '';
    expect(out).toContain('uid=64990 gid=64990');
    expect(out).toContain('the hidden answer');
    expect(out).toMatch(/CapPrm:\t0+\nCapEff:\t0+\nNoNewPrivs:\t1\nSeccomp:\t2/);
    expect(out).not.toContain('ASSAY_GUEST_SECRET');
    const names = [...out.matchAll(/^([A-Z_]+)=/gm)].map(([, name]) => name).toSorted();
    expect(names.filter((name) => !['PWD', 'OLDPWD', '_', 'SHLVL'].includes(name ?? ''))).toEqual([
      'ASSAY_REPORTS',
      'ASSAY_TESTS',
      'ASSAY_WORKSPACE',
      'HOME',
      'LANG',
      'LOGNAME',
      'PATH',
      'TMPDIR',
      'USER',
    ]);
  });

  test('keeps its tests from the agent while they run, and a cancel ends them and nothing else', async () => {
    await using session = await open('endless');
    await session.run('sleep 1234 > /dev/null 2>&1 &');
    const started = await stack.client.verifications.start(session.id);
    await running(session);
    expect(await said(session, 'cat /grader/tests/secret /grader/tests/run.sh 2>&1; ls /grader 2>&1')).not.toContain(
      'answer',
    );
    expect(await said(session, 'kill -9 -1 2>&1; pkill -9 -u 64990 2>&1; echo tried')).toContain('tried');
    expect(await said(session, 'ps -eo uid,args')).toMatch(/64990 +sleep/);
    const fork = await session.fork();
    await nothingLeft(fork);
    await fork.close();
    await session.run('sleep 1234 > /dev/null 2>&1 &');
    await stack.client.verifications.cancel(started.id);
    expect(await ended(started.id)).toMatchObject({ state: 'CANCELLED', result: undefined });
    await nothingLeft(session);
    expect(await said(session, 'ps -eo args')).toContain('sleep 1234');
  });

  test('ends what its tests started, also where that multiplies', async () => {
    await using session = await open('bomb', { pids: 64 });
    await session.run('sleep 1234 > /dev/null 2>&1 &');
    expect((await session.verify()).result).toMatchObject({ verdict: 'FAILED' });
    await nothingLeft(session);
    expect(await said(session, 'ps -eo args')).toContain('sleep 1234');
  });

  test('stands still with its session, and two of one session go one after the other', async () => {
    await using session = await open('patient');
    const both = [
      await stack.client.verifications.start(session.id),
      await stack.client.verifications.start(session.id),
    ];
    await running(session);
    await session.pause();
    await session.resume();
    await session.run('touch /workspace/go');
    for (const { id } of both) {
      expect(await ended(id)).toMatchObject({ state: 'COMPLETED', attemptCount: 1, result: { verdict: 'PASSED' } });
    }
    await nothingLeft(session);
  });

  test('of a session that is paused waits without a slot, and is no attempt before the session goes on', async () => {
    await using session = await open('confined');
    await session.pause();
    const waiting = [];
    for (let made = 0; made <= slots; made += 1) waiting.push(await stack.client.verifications.start(session.id));
    await using other = await open('confined');
    expect((await other.verify()).result).toMatchObject({ verdict: 'PASSED' });
    for (const { id } of waiting) expect(await stack.client.verifications.get(id)).toMatchObject({ state: 'PENDING' });
    await session.resume();
    for (const { id } of waiting) {
      expect(await ended(id)).toMatchObject({ state: 'COMPLETED', attemptCount: 1, result: { verdict: 'PASSED' } });
    }
  });

  test('that is paused for long gives its slot up, and is begun again when the session goes on', async () => {
    await using session = await open('patient');
    const started = await stack.client.verifications.start(session.id);
    await running(session);
    await session.pause();
    await eventually(async () => {
      const { state, message } = await stack.client.verifications.get(started.id);
      expect({ state, message }).toEqual({
        state: 'PENDING',
        message: expect.stringContaining('was paused for more'),
      });
    });
    await session.resume();
    await session.run('touch /workspace/go');
    expect(await ended(started.id)).toMatchObject({ attemptCount: 2, result: { verdict: 'PASSED' } });
    await nothingLeft(session);
  });

  test('of a session that is closed meanwhile is an error of ours, at once', async () => {
    const session = await open('endless');
    const started = await stack.client.verifications.start(session.id);
    await running(session);
    await session.close();
    const info = await ended(started.id);
    expect(info).toMatchObject({ state: 'ERROR', attemptCount: 1 });
    expect(info.result).toMatchObject({ verdict: 'INFRA_ERROR', trainable: false });
    expect(info.result?.reason).toContain('ended before its tests at SHARED');
  });
});

test.concurrent('an agent that leaves no room for the tests of a run at SHARED has failed', async () => {
  await using session = await open('confined', { pids: 64 });
  // It goes on trying, so that no room comes back.
  const crowd = `import os, time
while True:
    try:
        if os.fork() == 0: time.sleep(1000)
    except OSError:
        open("/tmp/full", "w").close()
        time.sleep(0.001)`;
  const full = 'while [ ! -e /tmp/full ]; do sleep 0.1 || :; done';
  await session.run(`python3 -I -c '${crowd}' > /dev/null 2>&1 & ${full}`);
  const { result } = await session.verify();
  expect(result).toMatchObject({ verdict: 'FAILED', trainable: true });
});

describe.concurrent('a sample with runs at several levels', () => {
  test('gives the strong one the submission alone, and the weak one the session', async () => {
    await using session = await open('mixed');
    await session.run('touch /workspace/done /tmp/done');
    const { result } = await session.verify();
    expect(result).toMatchObject({ verdict: 'PASSED', assurance: 'SHARED' });
    expect(result?.roles).toEqual([
      { role: 'FAIL_TO_PASS', assurance: 'ISOLATED' },
      { role: 'PASS_TO_PASS', assurance: 'SHARED' },
    ]);
    await nothingLeft(session);
  });
});

describe.concurrent.each(attacks)('an attack on tests that believe too much: %s', (_, script, ...verdicts) => {
  const all = levels.map((level, at) => [level, verdicts[at]] as const);
  // Of the levels that an attack gets through, and of those that it does not, the nearest to the other kind.
  const nearest = all.filter(([, verdict], at) =>
    verdict === 'PASSED' ? verdicts[at - 1] === 'FAILED' : verdicts[at + 1] !== 'FAILED',
  );
  test.each(inject('heavy') ? all : nearest)('at %s ends as %s', async (level, verdict) => {
    await using session = await open(`gullible-${level}`);
    await session.run(script);
    const { result } = await session.verify();
    expect(result).toMatchObject({ verdict, assurance: level });
    expect(await said(session, 'cat /tmp/stolen 2> /dev/null || true')).toBe('');
  });
});

describe('SHARED on a worker that dies', () => {
  test('is begun again by its worker when that died, and ends once', async () => {
    await using session = await open('patient');
    const started = await stack.client.verifications.start(session.id);
    await running(session);
    await stack.replace('worker');
    await session.run('touch /workspace/go');
    const info = await ended(started.id);
    expect(info).toMatchObject({ state: 'COMPLETED', attemptCount: 2, result: { verdict: 'PASSED' } });
    await nothingLeft(session);
  });

  test('leaves nothing in the session when it was called off while its worker was dead', async () => {
    await using session = await open('endless');
    const started = await stack.client.verifications.start(session.id);
    await running(session);
    await stack.stack.halt('worker', 'SIGKILL');
    await stack.client.verifications.cancel(started.id);
    stack.stack.start('worker');
    expect(await ended(started.id)).toMatchObject({ state: 'CANCELLED' });
    await nothingLeft(session);
  });
});
