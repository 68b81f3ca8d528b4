import { createHash, randomBytes } from 'node:crypto';
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Session } from '../../clients/typescript/index.ts';
import type { ChildName } from '../../scripts/stack.mjs';
import { rounds } from '../rounds.ts';
import { startTestStack, type TestStack } from './stack.ts';

const kills = rounds(6, 20);
let stack: TestStack;
beforeAll(async () => {
  stack = await startTestStack();
});
afterAll(() => stack?.stop());

/** Something that goes on until it is told to stop. */
interface Work<Outcome> {
  /** Resolves when it has got on from now, or is over. */
  gotOn(): Promise<unknown>;
  finish(): Promise<Outcome>;
}

/**
 * Kills a service again and again: a few milliseconds after a command was sent, as soon as it was sent, or at any time.
 * Tells how many of the kills came between the sending of a command and the news that it was started.
 */
async function killAgainAndAgain(name: ChildName, commands: Commands, others: Work<unknown>[]): Promise<number> {
  let amidStart = 0;
  for (let count = 0; count < kills; count++) {
    // Each kill interrupts what has got over the last: who comes back to a server that is always down gives up some time.
    await Promise.all([commands, ...others].map((work) => work.gotOn()));
    if (count % 2 === 0) {
      await commands.sent();
      // What was sent leaves this process in its next turn, and no answer can be here that soon.
      await (count % 4 === 0 ? nextTurn() : delay(Math.random() * 6));
    } else {
      await delay(Math.random() * 400);
    }
    if (commands.starting) amidStart++;
    await stack.replace(name);
  }
  return amidStart;
}

/** Tells whoever waits that something has happened. */
function createBell() {
  let next = Promise.withResolvers<void>();
  return {
    get rung() {
      return next.promise;
    },
    ring() {
      next.resolve();
      next = Promise.withResolvers();
    },
  };
}

interface Commands extends Work<number> {
  sent(): Promise<unknown>;
  /** Whether one was sent and it is not yet known that it was started. */
  readonly starting: boolean;
}

/** Runs short commands until told to stop; each leaves a line in a file and a code of its own. */
function runCommands(session: Session): Commands {
  let stop = false;
  let starting = false;
  const [sent, ended] = [createBell(), createBell()];
  const work = (async () => {
    let count = 0;
    for (; !stop; count++) {
      const script = `echo ${count} >>/tmp/ran; echo out ${count}; echo err ${count} >&2; exit ${count % 100}`;
      const execution = session.execute(script);
      starting = true;
      const printed = { stdout: '', stderr: '', gaps: 0 };
      const reading = (async () => {
        for await (const event of execution) {
          starting = false;
          if (event.type === 'stdout' || event.type === 'stderr')
            printed[event.type] += Buffer.from(event.data).toString();
          if (event.type === 'gap') printed.gaps++;
        }
      })();
      sent.ring();
      await reading;
      expect(printed).toEqual({ stdout: `out ${count}\n`, stderr: `err ${count}\n`, gaps: 0 });
      expect(await execution.result()).toMatchObject({ reason: 'EXITED', exitCode: count % 100 });
      ended.ring();
    }
    return count;
  })();
  return {
    get starting() {
      return starting;
    },
    sent: () => Promise.race([sent.rung, work]),
    gotOn: () => Promise.race([ended.rung, work]),
    finish() {
      stop = true;
      return work;
    },
  };
}

/** Follows a command that prints numbered lines until a file appears; every line must come once and in order. */
function followLines(session: Session): Work<number> {
  const got = createBell();
  const work = readLines(session, got.ring);
  return {
    gotOn: () => Promise.race([got.rung, work]),
    async finish() {
      await session.run('touch /tmp/enough');
      return work;
    },
  };
}

async function readLines(session: Session, got: () => void): Promise<number> {
  const script = `
import os, sys, time
n = 0
while not os.path.exists("/tmp/enough"):
    for _ in range(50):
        sys.stdout.write("%d\\n" % n); n += 1
    sys.stdout.flush(); time.sleep(0.005)
print("last", n)`;
  let next = 0;
  let rest = '';
  let last = '';
  for await (const event of session.execute(['python3', '-c', script])) {
    if (event.type === 'gap') throw new Error(`a gap from ${event.startOffset} to ${event.endOffset}`);
    if (event.type !== 'stdout') continue;
    const lines = (rest + Buffer.from(event.data).toString()).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      if (line.startsWith('last')) last = line;
      else if (line === String(next)) next++;
      else throw new Error(`line ${JSON.stringify(line)} where ${next} was expected`);
    }
    got();
  }
  expect(last).toBe(`last ${next}`);
  return next;
}

/** Writes random input until told to stop; the program's hash of it must be ours. */
function writeInput(session: Session): Work<void> {
  let stop = false;
  const taken = createBell();
  const work = (async () => {
    const hash = createHash('sha256');
    const execution = session.execute('sha256sum', { input: true });
    const output = (async () => {
      let text = '';
      for await (const event of execution) if (event.type === 'stdout') text += Buffer.from(event.data).toString();
      return text;
    })();
    while (!stop) {
      const data = randomBytes(1 + Math.floor(Math.random() * 100_000));
      hash.update(data);
      await execution.stdin.write(data);
      taken.ring();
    }
    await execution.stdin.end();
    expect(await output).toBe(`${hash.digest('hex')}  -\n`);
  })();
  return {
    gotOn: () => Promise.race([taken.rung, work]),
    finish() {
      stop = true;
      return work;
    },
  };
}

describe.each(['worker', 'sessions'] as const)(`${kills} times kill -9 of the %s`, (name) => {
  test('every command runs once, every line and every input byte arrives once, every code is right', async () => {
    const session = await stack.client.sessions.create({});
    const commands = runCommands(session);
    const lines = followLines(session);
    const input = writeInput(session);
    const amidStart = await killAgainAndAgain(name, commands, [lines, input]);
    const ran = await commands.finish();
    await input.finish();
    expect(await lines.finish()).toBeGreaterThan(1_000);
    const inFile = String((await session.run('cat /tmp/ran')).stdout);
    expect(inFile).toBe(Array.from({ length: ran }, (_, index) => `${index}\n`).join(''));
    expect(stack.stack.restarts(name)).toBeGreaterThanOrEqual(kills);
    expect(amidStart).toBeGreaterThanOrEqual(kills / 4);
    await session.close();
  });
});

describe('kill -9 of the broker', () => {
  test('loses nothing that was acknowledged, and running commands do not notice', async () => {
    const session = await stack.client.sessions.create({ labels: { kept: 'yes' } });
    const commands = runCommands(session);
    for (let count = 0; count < 5; count++) {
      const made = await stack.client.keys.create({ scopes: ['AGENT'], description: `key ${count}` });
      await session.update({ labels: { kept: String(count) } });
      await stack.replace('nats');
      expect((await session.refresh()).labels).toEqual({ kept: String(count) });
      const ids = [];
      for await (const key of stack.client.keys.list()) ids.push(key.id);
      expect(ids).toContain(made.key.id);
    }
    await commands.finish();
    await session.close();
    expect(session.info.state).toBe('CLOSED');
  });
});

describe('a worker that was killed', () => {
  test('finishes what it was closing and making, and loses what lost its container', async () => {
    const lost = await stack.client.sessions.create({});
    await stack.stack.halt('worker', 'SIGKILL');
    const { request } = await import('node:http');
    const { inject } = await import('vitest');
    await new Promise<void>((resolve, reject) => {
      const path = `/containers/assay-${lost.id}?force=true`;
      request({ socketPath: inject('setup').dockerSocket, path, method: 'DELETE' }, (response) => {
        response.resume();
        response.on('end', () => resolve());
      })
        .on('error', reject)
        .end();
    });
    const creating = stack.client.sessions.create({});
    stack.stack.start('worker');
    const made = await creating;
    expect(made.info.state).toBe('READY');
    expect(await lost.refresh()).toMatchObject({ state: 'LOST', endReason: 'SANDBOX_LOST' });
    await made.close();
  });
});
