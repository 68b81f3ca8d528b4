import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { connect } from '@nats-io/transport-node';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startTestStack, type TestStack } from '../e2e/stack.ts';
import { runDirectory } from '../run.ts';

const root = new URL('../..', import.meta.url).pathname;

let stack: TestStack;
let directory: string;
let python: string;
let generated: string;

beforeAll(async () => {
  directory = join(runDirectory(), 'subscriber');
  generated = join(directory, 'generated');
  mkdirSync(generated, { recursive: true });
  execFileSync('python3', ['-m', 'venv', join(directory, 'venv')]);
  python = join(directory, 'venv/bin/python');
  execFileSync(python, ['-m', 'pip', 'install', '-q', 'nats-py', 'protobuf', 'grpcio-tools']);
  const published = readdirSync(join(root, 'proto/assay/v1')).map((name) => `assay/v1/${name}`);
  const files = ['assay/events/v1/events.proto', ...published];
  const args = ['-m', 'grpc_tools.protoc', '-I', join(root, 'proto'), `--python_out=${generated}`, ...files];
  execFileSync(python, args);
  stack = await startTestStack();
}, 300_000);
afterAll(async () => {
  await stack?.stop();
  rmSync(directory, { recursive: true, force: true });
});

interface Said {
  readonly said: 'subscribed' | 'event' | 'got' | 'published';
  readonly subject: string;
  readonly kind: string;
  readonly event: {
    readonly sessionChanged?: { readonly session: { readonly sessionId: string; readonly state: string } };
    readonly verificationChanged?: {
      readonly verification: { readonly verificationId: string; readonly state: string; readonly result?: object };
    };
  };
  readonly errors: readonly string[];
}

function startSubscriber() {
  const { natsUrl, eventsAuthFile } = stack.stack;
  const script = join(import.meta.dirname, 'subscriber.py');
  const child = spawn(python, [script, natsUrl, eventsAuthFile ?? '', generated], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  return {
    ask: (line: string) => child.stdin.write(`${line}\n`),
    /** The next thing that it says and that `wanted` takes. */
    async hear(wanted: (said: Said) => boolean): Promise<Said> {
      for (;;) {
        const { value, done } = await lines.next();
        if (done) throw new Error('the subscriber ended');
        const said = JSON.parse(value) as Said;
        if (wanted(said)) return said;
      }
    },
    async end() {
      child.stdin.end();
      if (child.exitCode === null) await new Promise((resolve) => child.once('exit', resolve));
      expect(child.exitCode).toBe(0);
    },
  };
}

/** What the services' own user sees of the broker. */
async function messagesIn(stream: string): Promise<number> {
  const { user, password } = JSON.parse(readFileSync(stack.stack.natsAuthFile, 'utf8'));
  const connection = await connect({ servers: stack.stack.natsUrl, user, pass: password });
  const answer = await connection.request(`$JS.API.STREAM.INFO.${stream}`);
  await connection.close();
  return answer.json<{ state: { messages: number } }>().state.messages;
}

test('a subscriber in Python reads every event, live and from the stream, and can write nothing', async () => {
  const subscriber = startSubscriber();
  await subscriber.hear(({ said }) => said === 'subscribed');
  const session = await stack.client.sessions.create({ sample: { dataset: 'examples', id: 'hello-fix' } });
  const graded = await session.verify();
  await session.close();
  const state =
    (word: string) =>
    ({ said, event }: Said): boolean =>
      said === 'event' &&
      event.sessionChanged?.session.sessionId === session.id &&
      event.sessionChanged.session.state === `SESSION_STATE_${word}`;
  const ready = await subscriber.hear(state('READY'));
  expect(ready.subject).toMatch(new RegExp(`^assay\\.events\\.[^.]+\\.session\\.${session.id}$`));
  const verdict = await subscriber.hear(
    ({ said, event }) =>
      said === 'event' && event.verificationChanged?.verification.state === 'VERIFICATION_STATE_COMPLETED',
  );
  expect(verdict.subject).toMatch(new RegExp(`^assay\\.events\\.[^.]+\\.verification\\.${graded.id}$`));
  expect(verdict.event.verificationChanged?.verification).toMatchObject({
    verificationId: graded.id,
    result: { verdict: 'VERDICT_FAILED', testCount: 5, passedCount: 3, failedCount: 2 },
  });
  await subscriber.hear(state('CLOSED'));

  subscriber.ask('get 1');
  const first = await subscriber.hear(({ said }) => said === 'got');
  expect([first.subject, first.kind]).toEqual([ready.subject, 'session_changed']);

  const before = await messagesIn('ASSAY_EVENTS');
  const records = await messagesIn('KV_assay_sessions');
  const forbidden = [
    ready.subject,
    'assay.events.default.verification.forged',
    `$KV.assay_sessions.default.${session.id}`,
    '$KV.assay_verifications.default.forged',
    'assay.jobs.default.forged',
    '$JS.API.STREAM.PURGE.ASSAY_EVENTS',
    '$JS.API.STREAM.DELETE.ASSAY_EVENTS',
    '$JS.API.CONSUMER.CREATE.ASSAY_EVENTS',
    '$JS.API.STREAM.MSG.GET.KV_assay_keys',
    '$JS.API.DIRECT.GET.KV_assay_keys',
    '_INBOX.somebody',
  ];
  for (const subject of forbidden) {
    subscriber.ask(`publish ${subject}`);
    const { errors } = await subscriber.hear(({ said }) => said === 'published');
    expect([subject, ...errors]).toEqual([subject, expect.stringMatching(/permissions violation/i)]);
  }
  expect(await messagesIn('ASSAY_EVENTS')).toBe(before);
  expect(await messagesIn('KV_assay_sessions')).toBe(records);
  await subscriber.end();
});
