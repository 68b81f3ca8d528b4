import { connect } from 'node:http2';
import { type Client, createClient, type Session } from '../../../clients/typescript/index.ts';
import { GetTranscriptRequestSchema } from '../../../gen/assay/v1/execution_pb.js';
import { FollowSessionRequestSchema } from '../../../gen/assay/v1/session_pb.js';
import { openRawStream } from './raw-stream.ts';

/** Where a greedy client calls, and as whom. */
export interface Target {
  readonly client: Client;
  readonly endpoint: string;
  readonly key: string;
}

/** One greedy thing: `lanes` lanes that repeat `step` without a pause. */
export interface GreedyRow {
  readonly lanes: number;
  /** Makes what the lanes need. Not measured. */
  prepare(target: Target): Promise<(lane: number) => Promise<unknown>>;
}

const loggedCommands = 4_000;
const lastCommand = 'the-last-command-of-the-log';
const mebibyte = 1_048_576;

const times = <T>(count: number, make: (index: number) => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: count }, (_, index) => make(index)));

const pick = <T>(items: readonly T[], lane: number): T => items[lane % items.length] as T;

/** A session with a log of thousands of commands, the last of which is known by its id. */
async function longLog(client: Client, program: readonly string[]): Promise<Session> {
  const session = await client.sessions.create({});
  let left = loggedCommands;
  await times(32, async () => {
    while (left-- > 0) await session.run([...program]);
  });
  await session.run(['true'], { id: lastCommand });
  return session;
}

async function ownSession({ client }: Target, step: (session: Session, lane: number) => Promise<unknown>, count = 4) {
  const sessions = await times(count, () => client.sessions.create({}));
  return (lane: number) => step(pick(sessions, lane), lane);
}

const helloFix = { dataset: 'examples', id: 'hello-fix' };
const smallDisk = { diskBytes: 512 * mebibyte };

/** What project alpha does, by the name of the row. */
export const greedyRows: Readonly<Record<string, GreedyRow>> = {
  followers: {
    lanes: 200,
    async prepare({ client, endpoint, key }) {
      const session = await longLog(client, ['true']);
      const connections = Array.from({ length: 4 }, () => connect(endpoint));
      return (lane) =>
        openRawStream(pick(connections, lane), key, {
          path: '/assay.v1.SessionService/FollowSession',
          schema: FollowSessionRequestSchema,
          request: { sessionId: session.id },
          until: lastCommand,
        }).done;
    },
  },
  executions: {
    lanes: 400,
    prepare: (target) => ownSession(target, (session) => session.run(['true'])),
  },
  lists: {
    lanes: 64,
    async prepare({ client }) {
      const session = await longLog(client, ['true']);
      await times(20, async () => (await client.sessions.create({ limits: smallDisk })).close());
      return async (lane) => {
        for await (const _ of lane % 2 === 0 ? session.executions() : client.sessions.list());
      };
    },
  },
  output: {
    lanes: 16,
    prepare: (target) =>
      ownSession(target, async (session) => {
        for await (const _ of session.execute(['head', '-c', String(256 * mebibyte), '/dev/zero']));
      }),
  },
  stdin: {
    lanes: 16,
    prepare: (target) =>
      ownSession(target, (session) =>
        session.run(['sh', '-c', 'cat >/dev/null'], { input: new Uint8Array(32 * mebibyte) }),
      ),
  },
  creates: {
    lanes: 16,
    prepare:
      async ({ client }) =>
      async () =>
        (await client.sessions.create({})).close(),
  },
  shells: {
    lanes: 128,
    async prepare({ client }) {
      const sessions = await times(4, () => client.sessions.create({}));
      const shells = await times(32, (index) => pick(sessions, index).openShell());
      return async (lane) => {
        if (lane >= 8) return pick(shells, lane).run('true');
        await using shell = await pick(sessions, lane).openShell();
        await shell.run('true');
      };
    },
  },
  'large commands': {
    lanes: 32,
    async prepare(target) {
      const text = `: ${'x'.repeat(mebibyte - 2)}`;
      return ownSession(target, (session) => session.run(text));
    },
  },
  fork: {
    lanes: 8,
    prepare: (target) => ownSession(target, async (session) => (await session.fork()).close(), 2),
  },
  pause: {
    lanes: 16,
    async prepare({ client }) {
      const sessions = await times(16, () => client.sessions.create({}));
      return async (lane) => {
        await pick(sessions, lane).pause();
        await pick(sessions, lane).resume();
      };
    },
  },
  'log files': {
    lanes: 64,
    async prepare({ client, endpoint, key }) {
      const session = await longLog(client, ['head', '-c', '4096', '/dev/zero']);
      await session.close();
      const connections = Array.from({ length: 4 }, () => connect(endpoint));
      return (lane) =>
        openRawStream(pick(connections, lane), key, {
          path: '/assay.v1.ExecutionService/GetTranscript',
          schema: GetTranscriptRequestSchema,
          request: { sessionId: session.id },
        }).done;
    },
  },
  verifications: {
    lanes: 16,
    async prepare({ client }) {
      const sessions = await times(4, () => client.sessions.create({ sample: helloFix, limits: smallDisk }));
      return (lane) => pick(sessions, lane).verify({ force: true });
    },
  },
};

export function createTarget(endpoint: string, key: string): Target {
  return { endpoint, key, client: createClient({ endpoint, apiKey: key }) };
}
