import { afterEach, expect, test } from 'vitest';
import { type SessionEvent, SessionState } from '../../gen/assay/v1/session_pb.js';
import { type DoubleServices, type ServerDouble, startServerDouble } from '../clients/typescript/server-double.ts';
import { became, began, ended, lost, quiet, wrote } from '../clients/typescript/session-script.ts';
import { runCaptured } from './captured-terminal.ts';

const servers: ServerDouble[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.stop();
});

const executions = [
  began('c2', 'exe_1', 'echo one\nand more'),
  wrote('c3', 'exe_1', 0, 'one'),
  began('c4', 'exe_2', 'echo two >&2'),
  wrote('c5', 'exe_2', 0, 'two\n', 'stderr'),
  wrote('c6', 'exe_1', 3, ' on\n'),
  lost('c7', 'exe_1', 7, 10),
  ended('c8', 'exe_1', 3),
  ended('c9', 'exe_2'),
];
const log = [
  became('c0', SessionState.CREATING),
  became('c1', SessionState.READY),
  quiet(),
  ...executions,
  became('c10', SessionState.CLOSED, 'its owner closed it'),
];

async function serve(): Promise<string> {
  const after = (events: SessionEvent[], cursor: string) =>
    events.slice(events.findIndex((event) => event.cursor !== '' && event.cursor === cursor) + 1);
  const services: DoubleServices = {
    session: {
      getSession: ({ sessionId }) => ({ session: { sessionId, state: SessionState.CLOSED, endTime: { seconds: 1n } } }),
      async *followSession({ cursor }) {
        for (const event of after(log, cursor)) yield { event };
      },
    },
    execution: {
      async *getTranscript({ cursor, executionId, withoutOutput }) {
        for (const { cursor: next, event, time } of after(executions, cursor)) {
          if (event.case !== 'execution' || (executionId !== '' && event.value.executionId !== executionId)) continue;
          if (withoutOutput && /stdout|stderr|gap/.test(event.value.event.case ?? '')) continue;
          yield { cursor: next, event: event.value, ...(time && { time }) };
        }
      },
    },
  };
  const server = await startServerDouble(services);
  servers.push(server);
  return server.endpoint;
}

const heads = [
  '==> exe_1 echo one',
  '==> exe_2 echo two >&2',
  'two',
  '==> exe_1 echo one',
  'assay: 3 bytes of stdout are missing here: more than is kept',
  'assay: exit code 3',
  '==> exe_2 echo two >&2',
];

test('logs prints what executions wrote, and says on stderr whose it is', async () => {
  const logs = await runCaptured(['logs', 'ses_1'], await serve());
  expect(logs.stdout.toString()).toBe('one on\n');
  expect(logs.stderr).toBe(`${heads.join('\n')}\n`);
  const one = await runCaptured(['logs', 'ses_1', 'exe_2'], await serve());
  expect(one.stderr).toBe('==> exe_2 echo two >&2\ntwo\n');
});

test('logs -f goes on until the session has ended, and from a cursor', async () => {
  const endpoint = await serve();
  const logs = await runCaptured(['logs', '-f', 'ses_1'], endpoint);
  expect(logs.stdout.toString()).toBe('one on\n');
  expect(logs.stderr).toBe(`${heads.join('\n')}\nassay: the session is CLOSED: its owner closed it\n`);
  const json = await runCaptured(['logs', '-f', 'ses_1', '--cursor', 'c4', '-o', 'json'], endpoint);
  const events = json.stdout
    .toString()
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(events).toMatchObject([
    { cursor: 'c5', type: 'stderr', execution: 'exe_2', offset: 0, text: 'two\n', time: '1970-01-01T00:00:01.000Z' },
    { cursor: 'c6', type: 'stdout', execution: 'exe_1', offset: 3, text: ' on\n' },
    { cursor: 'c7', type: 'gap', execution: 'exe_1', stream: 'stdout', startOffset: 7, endOffset: 10 },
    { cursor: 'c8', type: 'finished', execution: 'exe_1', reason: 'EXITED', exitCode: 3 },
    { cursor: 'c9', type: 'finished', execution: 'exe_2' },
    { cursor: 'c10', type: 'state', state: 'CLOSED' },
  ]);
});

test('transcript prints one document', async () => {
  const page = await runCaptured(['transcript', 'ses_1'], await serve());
  const time = '1970-01-01T00:00:01.000Z';
  expect(page.stdout.toString()).toBe(
    [
      `--- ${time} exe_1\n$ echo one\nand more\none`,
      `--- ${time} exe_2\n$ echo two >&2\ntwo`,
      `--- ${time} exe_1 goes on\n on`,
      '--- 3 bytes of stdout were not kept',
      `--- ${time} exe_1 exit code 3, 0.000 s`,
      `--- ${time} exe_2 goes on`,
      `--- ${time} exe_2 exit code 0, 0.000 s\n`,
    ].join('\n'),
  );
  const bare = await runCaptured(['transcript', '--no-bytes', '-o', 'json', 'ses_1', 'exe_2'], await serve());
  const types = bare.stdout
    .toString()
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line).type);
  expect(types).toEqual(['started', 'finished']);
});
