import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { typeid } from 'typeid-js';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { SessionRecordSchema } from '../../gen/assay/internal/v1/records_pb.js';
import { Scope } from '../../gen/assay/v1/key_pb.js';
import { SessionState } from '../../gen/assay/v1/session_pb.js';
import { createNatsSessionArchive } from '../../services/shared/store/nats-session-archive.ts';
import type { SessionArchive } from '../../services/shared/store/session-archive.ts';
import { reasonOf } from './reason.ts';
import { adminKey, clientsOf, type RunningService, runService } from './running-service.ts';

const maxBytes = 2 ** 20;
let service: RunningService;
let archive: SessionArchive;

beforeAll(async () => {
  const env = { ASSAY_ENDED_SESSION_STORE_BYTES: String(maxBytes), ASSAY_ARCHIVE_SWEEP_SECONDS: '1' };
  service = await runService({ env });
  archive = createNatsSessionArchive(service.broker);
});
afterAll(() => service.stop());

const bytes = async () => (await archive.room()).bytes;
const add = (project: string, at: number) =>
  archive.add(
    create(SessionRecordSchema, {
      project,
      session: {
        sessionId: `${project}${at}`,
        state: SessionState.CLOSED,
        createTime: timestampFromMs(1_000 + at),
        message: 'x'.repeat(4_096),
      },
    }),
  );

test('a project that ends more sessions than the store holds loses its own oldest, and nobody else any', async () => {
  for (let at = 0; at < 20; at += 1) await add('modest', at);
  // Far more than fits, and no faster than the service itself archives, which leaves a margin.
  for (let at = 0; at < 750; at += 1) {
    if (at % 5 === 0) await expect.poll(bytes).toBeLessThan((maxBytes * 15) / 16);
    await add('greedy', at);
  }
  await expect.poll(bytes).toBeLessThanOrEqual((maxBytes * 7) / 8);
  for (let at = 0; at < 20; at += 1) expect(await archive.get('modest', `modest${at}`)).toBeDefined();
  expect(await archive.get('greedy', 'greedy0')).toBeUndefined();
  expect(await archive.get('greedy', 'greedy749')).toBeDefined();
  const { secret } = await service.makeKey(Scope.AGENT, 'greedy');
  const { sessions } = clientsOf(service.transport(secret));
  const listed = await sessions.listSessions({ pageSize: 1_000 });
  const { records } = await archive.room();
  expect(listed.sessions).toHaveLength(records - 20);
  expect(listed.sessions[0]?.sessionId).toBe('greedy749');
  const { sessions: everyones } = clientsOf(service.transport(adminKey));
  expect((await everyones.listSessions({})).sessions).toEqual([]);
});

test('a store of live sessions that is nearly full takes no new one, says so, and still takes the ends of others', async () => {
  const small = await runService({
    env: { ASSAY_SESSION_STORE_BYTES: String(maxBytes), ASSAY_ARCHIVE_SWEEP_SECONDS: '1' },
  });
  try {
    const { workerId } = await small.addWorker();
    const { sessions } = clientsOf(small.transport(adminKey));
    const made = Array.from({ length: 16 }, () => typeid('ses').toString());
    for (const sessionId of made) {
      const session = { sessionId, workerId, state: SessionState.READY, env: { LONG: 'x'.repeat(60_000) } };
      await small.sessions.create(create(SessionRecordSchema, { project: 'default', session }));
    }
    const refusal = () =>
      sessions.createSession({}).then(
        () => undefined,
        (error) => error,
      );
    await expect.poll(async () => reasonOf(await refusal())).toBe('STORE_FULL');
    expect(String(await refusal())).toContain('ASSAY_SESSION_STORE_BYTES');
    for (const sessionId of made) await sessions.closeSession({ sessionId });
    await expect.poll(refusal).toBeUndefined();
  } finally {
    await small.stop();
  }
});
