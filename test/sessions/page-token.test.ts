import { afterAll, beforeAll, expect, test } from 'vitest';
import { SessionState } from '../../gen/assay/v1/session_pb.js';
import { reasonOf } from './reason.ts';
import { adminKey, clientsOf, type RunningService, runService } from './running-service.ts';

let service: RunningService;
let api: ReturnType<typeof clientsOf>;
const made: string[] = [];

beforeAll(async () => {
  service = await runService();
  await service.addWorker({ heartbeatMs: 1_000 });
  api = clientsOf(service.transport(adminKey));
  for (let i = 0; i < 7; i += 1) {
    const { session } = await api.sessions.createSession({ labels: { parity: i % 2 === 0 ? 'even' : 'odd' } });
    made.push(session?.sessionId ?? '');
  }
});
afterAll(() => service.stop());

test('pages hold every session once, newest first', async () => {
  const seen: string[] = [];
  let pageToken = '';
  do {
    const page = await api.sessions.listSessions({ pageSize: 3, pageToken });
    seen.push(...page.sessions.map(({ sessionId }) => sessionId));
    pageToken = page.nextPageToken;
  } while (pageToken !== '');
  expect(seen).toHaveLength(7);
  expect(new Set(seen)).toEqual(new Set(made));
});

test('a list filters by labels and states', async () => {
  const even = await api.sessions.listSessions({ labels: { parity: 'even' } });
  expect(even.sessions).toHaveLength(4);
  await api.sessions.closeSession({ sessionId: made[0] ?? '' });
  const closed = await api.sessions.listSessions({ states: [SessionState.CLOSED] });
  expect(closed.sessions.map(({ sessionId }) => sessionId)).toEqual([made[0]]);
});

test('a token that was changed, or belongs to another query, is refused', async () => {
  const { nextPageToken } = await api.sessions.listSessions({ pageSize: 2 });
  const swapped = nextPageToken.replace(/^./, (c) => (c === 'A' ? 'B' : 'A'));
  const wrong = [
    () => api.sessions.listSessions({ pageToken: swapped }),
    () => api.sessions.listSessions({ pageToken: nextPageToken, labels: { parity: 'odd' } }),
    () => api.sessions.listSessions({ pageToken: 'nonsense' }),
    () => api.sessions.listSessions({ pageToken: 'A'.repeat(100_000) }),
    () => api.keys.listKeys({ pageToken: nextPageToken }),
    () => api.executions.listExecutions({ sessionId: made[1] ?? '', pageToken: nextPageToken }),
  ];
  for (const ask of wrong) expect(reasonOf(await ask().catch((e) => e))).toBe('INVALID_PAGE_TOKEN');
});

test("the worker's own token travels sealed", async () => {
  const sessionId = made[1] ?? '';
  const first = await api.executions.listExecutions({ sessionId });
  const second = await api.executions.listExecutions({ sessionId, pageToken: first.nextPageToken });
  expect(second.executions[0]?.executionId).toBe('after-1');
  expect(second.nextPageToken).toBe('');
});
