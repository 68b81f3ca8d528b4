import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Execution, Session, Shell } from '../../clients/typescript/index.ts';
import { rounds } from '../rounds.ts';
import { eventually } from './eventually.ts';
import { printed } from './printed.ts';
import { createConnection } from './raw-client.ts';
import { startTestStack, type TestStack } from './stack.ts';
import { chooseMetricsPlace, type MetricsPlace } from './worker-metrics.ts';

const shellsLimit = 6;
const queueLimit = 20;
let stack: TestStack;
let session: Session;
let metrics: MetricsPlace;

beforeAll(async () => {
  metrics = await chooseMetricsPlace();
  const limits = { ASSAY_SHELLS_PER_SESSION: String(shellsLimit), ASSAY_QUEUED_PER_SHELL: String(queueLimit) };
  const worker = { ...limits, ...metrics.env };
  stack = await startTestStack({ env: { worker } });
  session = await stack.client.sessions.create({ env: { FROM_SESSION: 'yes' } });
});
afterAll(async () => {
  await session?.close();
  await stack?.stop();
});

async function text(shell: Shell, command: string): Promise<string> {
  return String((await shell.run(command)).stdout);
}

/** Resolves when the execution is known to the server in this state. */
async function inState(id: string, state: string, of = session): Promise<void> {
  const look = async () => (await of.execution(id).catch(() => undefined))?.state;
  await eventually(async () => expect(await look()).toBe(state));
}

describe('opening a shell', () => {
  test('takes a program, variables and a directory, and the session’s variables are there too', async () => {
    await using shell = await session.openShell({ program: ['zsh'], env: { MINE: 'm' }, cwd: '/usr' });
    expect(await text(shell, 'echo $ZSH_VERSION | cut -d. -f1; echo $MINE $FROM_SESSION; pwd')).toBe(
      '5\nm yes\n/usr\n',
    );
    expect(shell.info).toMatchObject({ state: 'OPEN', program: ['zsh'], cwd: '/usr', openCount: 1 });
  });

  test('without a program is bash, where source works', async () => {
    await using shell = await session.openShell();
    expect(await text(shell, 'echo $0; source /dev/null && echo sourced')).toMatch(/bash\nsourced\n$/);
  });

  test('takes an id of the caller, which names one shell for ever', async () => {
    const shell = await session.openShell({ id: 'mine', env: { A: '1' } });
    expect(shell.id).toBe('mine');
    const again = await session.openShell({ id: 'mine', env: { A: '1' } });
    expect(again.info).toMatchObject({ id: 'mine', state: 'OPEN', openCount: 1 });
    const other = session.openShell({ id: 'mine', env: { A: '2' } });
    await expect(other).rejects.toMatchObject({ reason: 'SHELL_ID_REUSED' });
    await shell.close();
    expect((await session.openShell({ id: 'mine', env: { A: '1' } })).info).toMatchObject({ state: 'CLOSED' });
  });

  test('that cannot be done says why, and leaves its id free', async () => {
    await expect(session.openShell({ id: 'free', cwd: '/nowhere' })).rejects.toMatchObject({
      reason: 'PROGRAM_NOT_STARTED',
      message: expect.stringContaining('ENOENT'),
    });
    await expect(session.openShell({ id: 'free', program: ['/opt/bin/bash'] })).rejects.toMatchObject({
      reason: 'PROGRAM_NOT_STARTED',
    });
    await using shell = await session.openShell({ id: 'free' });
    expect(await text(shell, 'echo open')).toBe('open\n');
  });

  test.each([
    ['exit 3', 'its program ended with exit code 3 before it took commands', { exit_code: '3' }],
    ['kill -TERM $$', 'its program was ended by SIGTERM before it took commands', { signal: 'SIGTERM' }],
  ])('says what became of a program that does: %s', async (line, message, metadata) => {
    await session.run(`printf '#!/bin/sh\\n%s\\n' '${line}' >/tmp/bash && chmod +x /tmp/bash`);
    await expect(session.openShell({ program: ['/tmp/bash'] })).rejects.toMatchObject({
      reason: 'PROGRAM_NOT_STARTED',
      message: expect.stringContaining(message),
      metadata,
    });
  });

  test('refuses what is no shell', async () => {
    await expect(session.openShell({ program: ['python3'] })).rejects.toMatchObject({
      reason: 'INVALID_FIELD',
      message: expect.stringContaining('python3'),
    });
  });

  test('is limited, and closing one makes room', async () => {
    const shells = await Promise.all(Array.from({ length: shellsLimit }, () => session.openShell()));
    await expect(session.openShell()).rejects.toMatchObject({ reason: 'SHELL_QUOTA', metadata: { limit: '6' } });
    await shells[0]?.close();
    const another = await session.openShell();
    await Promise.all([...shells.slice(1), another].map((shell) => shell.close()));
  });

  test('is listed, oldest first, with what was closed', async () => {
    const fresh = await stack.client.sessions.create({});
    const [one, two] = [await fresh.openShell({ id: 'one' }), await fresh.openShell({ id: 'two' })];
    await one.close();
    const listed = await Array.fromAsync(fresh.shells());
    expect(listed.map(({ id, state }) => [id, state])).toEqual([
      ['one', 'CLOSED'],
      ['two', 'OPEN'],
    ]);
    expect((await fresh.shell('two')).info).toMatchObject({ id: two.id, queuedExecutionCount: 0 });
    await expect(fresh.shell('three')).rejects.toMatchObject({ reason: 'SHELL_NOT_FOUND' });
    await fresh.close();
  });
});

describe('a request for a shell', () => {
  test('is refused with env, cwd or argv, and says what to do instead', async () => {
    await using shell = await session.openShell();
    const shellId = shell.id;
    await expect(session.run('true', { shellId, env: { A: '1' } })).rejects.toMatchObject({
      message: expect.stringContaining('export'),
    });
    await expect(session.run('true', { shellId, cwd: '/tmp' })).rejects.toMatchObject({
      message: expect.stringContaining('cd'),
    });
    await expect(session.run(['true'], { shellId })).rejects.toMatchObject({ reason: 'INVALID_FIELD' });
    await expect(session.run('true', { shellId: 'nobody' })).rejects.toMatchObject({ reason: 'SHELL_NOT_FOUND' });
  });

  test('with a used id follows the first command and runs nothing', async () => {
    await using shell = await session.openShell();
    await shell.run('n=$((n+1)); echo $n', { id: 'counted' });
    expect(String((await shell.run('n=$((n+1)); echo $n', { id: 'counted' })).stdout)).toBe('1\n');
    expect(await text(shell, 'echo $n')).toBe('1\n');
    await expect(session.run('n=$((n+1)); echo $n', { id: 'counted' })).rejects.toMatchObject({
      reason: 'EXECUTION_ID_REUSED',
    });
  });
});

describe('commands of one shell', () => {
  test('run one at a time in the order in which they came, beside direct executions and other shells', async () => {
    await using shell = await session.openShell();
    await using other = await session.openShell();
    const gate = `/tmp/gate-${shell.id}`;
    const first = shell.execute(`echo up; until [ -e ${gate} ]; do sleep 0.02; done; echo 0 >>${gate}.order`);
    await printed(session, first, 'up');
    const ids = Array.from({ length: 8 }, (_, count) => `queued-${shell.id}-${count + 1}`);
    const queued: Execution[] = [];
    for (const [index, id] of ids.entries()) {
      queued.push(shell.execute(`echo ${index + 1} >>${gate}.order`, { id }));
      await inState(id, 'QUEUED');
    }
    expect(await shell.refresh()).toMatchObject({ runningExecutionId: first.id, queuedExecutionCount: 8 });
    expect(await text(other, 'echo beside')).toBe('beside\n');
    expect(String((await session.run(`touch ${gate}; echo direct`)).stdout)).toBe('direct\n');
    await Promise.all(queued.map((execution) => execution.result()));
    expect(await text(shell, `cat ${gate}.order`)).toBe('0\n1\n2\n3\n4\n5\n6\n7\n8\n');
    expect(await session.execution(ids[0] as string)).toMatchObject({ shellId: shell.id, state: 'FINISHED' });
  });

  test('can be cancelled while they wait, and then nothing of them runs', async () => {
    await using shell = await session.openShell();
    const gate = `/tmp/cancel-${shell.id}`;
    const first = shell.execute(`echo up; until [ -e ${gate} ]; do sleep 0.02; done`);
    await printed(session, first, 'up');
    const second = shell.execute(`touch ${gate}.ran`);
    await inState(second.id, 'QUEUED');
    await expect(second.signal(15)).rejects.toMatchObject({ reason: 'EXECUTION_NOT_RUNNING' });
    await second.cancel();
    const result = await second.result();
    expect(result).toMatchObject({ reason: 'CANCELLED', exitCode: undefined, stdoutBytes: 0 });
    expect(result.message).toContain('nothing was run');
    expect(await session.execution(second.id)).toMatchObject({ state: 'FINISHED', startTime: undefined });
    await session.run(`touch ${gate}`);
    await first.result();
    expect(await text(shell, `ls ${gate}*`)).toBe(`${gate}\n`);
  });

  test('take input while they wait, and the guest hears of it in their turn', async () => {
    await using shell = await session.openShell();
    const { executions } = createConnection(stack.endpoint, stack.key);
    const reconnects = async () => (await metrics.scrape()).get('guest_reconnects_total');
    const before = await reconnects();
    const first = shell.execute('echo up; read v', { input: true });
    await printed(session, first, 'up');
    const second = shell.execute('cat', { input: true });
    await inState(second.id, 'QUEUED');
    const ids = { sessionId: session.id, executionId: second.id };
    const written = executions.writeInput({ ...ids, offset: 0n, data: Buffer.from('early'), end: true });
    await Promise.all([written, executions.getExecution(ids).then(() => first.stdin.end())]);
    expect(await second.result()).toMatchObject({ exitCode: 0, stdoutBytes: 5 });
    expect(await reconnects()).toBe(before);
  });

  test('wait up to a limit, which is told', async () => {
    await using shell = await session.openShell();
    const gate = `/tmp/limit-${shell.id}`;
    const first = shell.execute(`echo up; until [ -e ${gate} ]; do sleep 0.02; done`);
    await printed(session, first, 'up');
    const queued = Array.from({ length: queueLimit }, (_, count) => shell.execute(`exit_code=${count}`));
    for (const { id } of queued) await inState(id, 'QUEUED');
    await expect(shell.run('one too many')).rejects.toMatchObject({
      reason: 'SHELL_QUEUE_FULL',
      metadata: { limit: String(queueLimit) },
    });
    await session.run(`touch ${gate}`);
    await Promise.all(queued.map((execution) => execution.result()));
  });

  test('are charged for their own CPU time and memory, not for those before', async () => {
    await using shell = await session.openShell();
    const heavy = await shell.run(`python3 -c 'x = bytearray(80_000_000); sum(range(3*10**6))'`);
    const light = await shell.run('true');
    expect(heavy.result.cpuTimeMs).toBeGreaterThan(30);
    expect(heavy.result.peakMemoryBytes).toBeGreaterThan(80_000_000);
    expect(light.result.cpuTimeMs).toBeLessThan(heavy.result.cpuTimeMs / 2);
    expect(light.result.peakMemoryBytes).toBeLessThan(heavy.result.peakMemoryBytes);
  });

  test('that run out of memory say so, and the shell keeps its state', async () => {
    const small = await stack.client.sessions.create({ limits: { memoryBytes: 200 * 2 ** 20 } });
    const shell = await small.openShell();
    await shell.run('kept=yes');
    const hog = await shell.run(`python3 -c 'x = bytearray(10**9)'`);
    expect(hog).toMatchObject({ reason: 'OUT_OF_MEMORY' });
    expect(hog.result.oomKills).toBeGreaterThan(0);
    const after = await shell.run('echo $kept');
    expect([String(after.stdout), after.result.oomKills, after.reason]).toEqual(['yes\n', 0, 'EXITED']);
    await small.close();
  });
});

describe.concurrent('a timeout', () => {
  test('does not run while its command waits', async () => {
    await using shell = await session.openShell();
    const gate = `/tmp/timeout-${shell.id}`;
    const timeoutMs = 4_000;
    const first = shell.execute(`echo up; until [ -e ${gate} ]; do sleep 0.02; done`);
    await printed(session, first, 'up');
    const second = shell.execute('echo ran', { timeoutMs });
    await inState(second.id, 'QUEUED');
    // Where nothing waits, that time passes.
    expect((await session.run('sleep 8200', { timeoutMs })).reason).toBe('TIMED_OUT');
    await session.run(`touch ${gate}`);
    expect((await first.result()).reason).toBe('EXITED');
    expect(await second.result()).toMatchObject({ reason: 'EXITED', exitCode: 0 });
  });

  test('that only the end of the shell can enforce ends it with all it holds, says so, and it is open again', async () => {
    await using shell = await session.openShell();
    // It hears neither TERM nor the interrupt.
    await shell.run("kept=yes; trap '' TERM URG INT HUP");
    const stuck = await shell.run('while :; do :; done', { timeoutMs: 300 });
    expect(stuck).toMatchObject({ reason: 'TIMED_OUT' });
    expect(stuck.result).toMatchObject({ shellEnded: true, message: expect.stringContaining('opened again') });
    const next = await shell.run('echo "[$kept]"');
    expect([String(next.stdout), next.result.shellReopened]).toEqual(['[]\n', true]);
    expect((await shell.refresh()).openCount).toBe(2);
  });

  test('stands still while the session is paused', async () => {
    await using still = await stack.client.sessions.create({});
    const shell = await still.openShell();
    const timeoutMs = 5_000;
    const execution = shell.execute('echo go; until [ -e /tmp/on ]; do sleep 0.05; done', { timeoutMs });
    await printed(still, execution, 'go');
    await still.pause();
    await expect(still.openShell()).rejects.toMatchObject({ reason: 'SESSION_NOT_READY' });
    // Where nothing stands still, that time passes.
    expect((await session.run('sleep 8300', { timeoutMs })).reason).toBe('TIMED_OUT');
    await still.resume();
    await still.run('touch /tmp/on');
    expect((await execution.result()).reason).toBe('EXITED');
  });
});

describe('cancelling a command of a shell that has ended', () => {
  test('ends what it left in the background, the shell keeps its state, and what others left lives on', async () => {
    await using shell = await session.openShell();
    const word = `9${shell.id.replace(/\D/g, '').slice(0, 8)}`;
    const alive = async () => String((await session.run(`pgrep -a -f "[s]leep ${word}"`)).stdout);
    await shell.run(`kept=yes; cd /usr; sleep ${word}1 & earlier=$!`);
    // A server: it goes on by children that it makes after its command; TERM ends it, but not all of them.
    const server = `echo up; while :; do sleep 0.05; done & (sleep 0.3; (trap "" TERM; sleep ${word}2 & exec sleep ${word}3) & wait) &`;
    const left = await shell.run(server, { id: `left-${shell.id}` });
    expect(left).toMatchObject({ reason: 'EXITED', exitCode: 0 });
    await shell.run(`sleep ${word}4 & later=$!`);
    await eventually(async () => expect((await alive()).split('\n')).toHaveLength(5));
    const { executions } = createConnection(stack.endpoint, stack.key);
    const drained = Array.fromAsync(session.attach(`left-${shell.id}`, { followBackground: true }));
    const before = await session.execution(`left-${shell.id}`);
    expect(before.background).toBe(true);
    await executions.cancelExecution({ sessionId: session.id, executionId: `left-${shell.id}` });
    await eventually(async () => expect((await session.execution(`left-${shell.id}`)).background).toBe(false));
    expect((await drained).at(-1)).toMatchObject({ type: 'finished', result: { reason: 'EXITED', exitCode: 0 } });
    expect(await session.execution(`left-${shell.id}`)).toMatchObject({ background: false, result: before.result });
    const after = await shell.run(
      'echo $kept; pwd; kill -0 $earlier && kill -0 $later && echo both; kill $earlier $later',
    );
    expect([String(after.stdout), after.result.shellReopened]).toEqual(['yes\n/usr\nboth\n', false]);
    expect(await alive()).toBe('');
  });

  test('spares the later commands of a shell that itself holds its output', async () => {
    await using shell = await session.openShell();
    await shell.run('exec 7>&1; sleep 8400 & first=$!', { id: `held-${shell.id}` });
    await shell.run('sleep 8400 & second=$!; (sleep 8400 & echo $! >/tmp/third.$$)');
    const { executions } = createConnection(stack.endpoint, stack.key);
    await executions.cancelExecution({ sessionId: session.id, executionId: `held-${shell.id}` });
    await shell.run('wait $first; kill -0 $second && kill -0 $(cat /tmp/third.$$)');
    // Long enough for the second blow.
    const spared = await shell.run('sleep 2.2; kill -0 $second && kill -0 $(cat /tmp/third.$$) && echo spared');
    expect([String(spared.stdout), spared.result.shellReopened]).toEqual(['spared\n', false]);
  });
});

describe('closing a shell', () => {
  test('ends its command, what it left running, and what waits', async () => {
    const shell = await session.openShell();
    const word = `8${shell.id.replace(/\D/g, '').slice(0, 8)}`;
    await shell.run(`setsid -f sleep ${word}1; (sleep ${word}2 &); nohup sleep ${word}3 >/dev/null 2>&1 &`);
    const running = shell.execute(`echo up; trap '' TERM HUP; sleep ${word}4`);
    await printed(session, running, 'up');
    const waiting = shell.execute('echo never');
    await inState(waiting.id, 'QUEUED');
    expect(await shell.close()).toMatchObject({ state: 'CLOSED', queuedExecutionCount: 0 });
    expect(await running.result()).toMatchObject({ reason: 'CANCELLED', shellEnded: true });
    expect(await waiting.result()).toMatchObject({
      reason: 'CANCELLED',
      message: expect.stringContaining('nothing was run'),
    });
    expect(String((await session.run(`pgrep -f "[s]leep ${word}"`)).stdout)).toBe('');
    await expect(shell.run('true')).rejects.toMatchObject({ reason: 'SHELL_CLOSED' });
    expect((await shell.close()).state).toBe('CLOSED');
  });

  test('happens with its session', async () => {
    const fresh = await stack.client.sessions.create({});
    const shell = await fresh.openShell();
    const running = shell.execute('echo up; sleep 8100');
    await inState(running.id, 'RUNNING', fresh);
    const waiting = shell.execute('echo never');
    await inState(waiting.id, 'QUEUED', fresh);
    await fresh.close();
    expect((await running.result()).reason).toBe('SANDBOX_LOST');
    await expect(waiting.result()).rejects.toMatchObject({ reason: expect.stringMatching(/SANDBOX_LOST|SESSION/) });
  });
});

describe('a shell whose opening fails later', () => {
  test('refuses commands while it cannot be opened, and works again when it can', async () => {
    await session.run('mkdir -p /tmp/home-of-shell');
    await using shell = await session.openShell({ cwd: '/tmp/home-of-shell' });
    await shell.run('rmdir /tmp/home-of-shell; exit 1');
    await expect(shell.run('echo never')).rejects.toMatchObject({ reason: 'PROGRAM_NOT_STARTED' });
    await session.run('mkdir -p /tmp/home-of-shell');
    const back = await shell.run('pwd');
    expect([String(back.stdout), back.result.shellReopened]).toEqual(['/tmp/home-of-shell\n', true]);
  });
});

describe('kill -9 of the worker', () => {
  test('loses no command that runs or waits, keeps their order and the state of the shell', async () => {
    const fresh = await stack.client.sessions.create({});
    const shell = await fresh.openShell({ id: 'before-the-kill' });
    await shell.run('state=kept; log() { echo $1 >>/tmp/log; }; cd /usr');
    const first = shell.execute('log 0; echo up; until [ -e /tmp/go ]; do sleep 0.02; done; echo end');
    await printed(fresh, first, 'up');
    const queued: Execution[] = [];
    for (let count = 1; count <= 10; count++) {
      queued.push(shell.execute(`log ${count}; echo ${count} $state $PWD; (exit ${count})`, { id: `w-${count}` }));
      await inState(`w-${count}`, 'QUEUED', fresh);
    }
    for (let kills = rounds(2, 3); kills > 0; kills--) {
      await stack.replace('worker');
      await inState('w-10', 'QUEUED', fresh);
    }
    expect((await fresh.openShell({ id: 'before-the-kill' })).id).toBe(shell.id);
    await fresh.run('touch /tmp/go');
    expect((await first.result()).reason).toBe('EXITED');
    for (const [index, execution] of queued.entries()) {
      let out = '';
      for await (const event of execution) if (event.type === 'stdout') out += Buffer.from(event.data).toString();
      expect([out, (await execution.result()).exitCode]).toEqual([`${index + 1} kept /usr\n`, index + 1]);
    }
    expect(String((await fresh.run('tr "\\n" " " </tmp/log')).stdout)).toBe('0 1 2 3 4 5 6 7 8 9 10 ');
    await fresh.close();
  });

  test('while commands come one after the other runs each once, in order', async () => {
    const fresh = await stack.client.sessions.create({});
    const shell = await fresh.openShell();
    await shell.run('n=0');
    let stop = false;
    let count = 0;
    const work = (async () => {
      while (!stop) {
        const { exitCode, stdout, result } = await shell.run(`n=$((n+1)); echo $n; (exit ${++count % 100})`);
        expect([exitCode, String(stdout), result.shellReopened]).toEqual([count % 100, `${count}\n`, false]);
      }
    })();
    for (let kills = rounds(3, 6); kills > 0; kills--) {
      const before = count;
      while (count < before + 3) await Promise.race([work, new Promise((resolve) => setTimeout(resolve, 5))]);
      await stack.replace('worker');
    }
    stop = true;
    await work;
    await fresh.close();
  });
});
