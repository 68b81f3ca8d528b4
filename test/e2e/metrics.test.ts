import { afterAll, beforeAll, expect, test } from 'vitest';
import { getPage } from '../http-page.ts';
import { startTestStack, type TestStack } from './stack.ts';
import { chooseMetricsPlace, type MetricsPlace } from './worker-metrics.ts';

let stack: TestStack;
let metrics: MetricsPlace;
beforeAll(async () => {
  metrics = await chooseMetricsPlace();
  stack = await startTestStack({ env: { worker: metrics.env } });
});
afterAll(() => stack?.stop());

test('the metrics of a worker count what its sessions did, and name none of them', async () => {
  const session = await stack.client.sessions.create({});
  await session.run('head -c 100000 /dev/zero; echo oops >&2; exit 3');
  await session.run('wc -c', { input: 'twelve bytes' });
  await session.run('sleep 60', { timeoutMs: 100 });
  await session.run(['/no/such/program']).catch(() => {});
  const follower = session.execute('echo here; sleep 600');
  const reading = follower[Symbol.asyncIterator]();
  await reading.next();
  const attached = session.attach(follower.id)[Symbol.asyncIterator]();
  await attached.next();
  expect((await getPage(new URL('/', metrics.url))).status).toBe(404);
  expect((await getPage(metrics.url)).contentType).toContain('text/plain');
  const open = await metrics.scrape();
  expect(Object.fromEntries(open)).toMatchObject({
    'executions_total{reason="EXITED"}': 2,
    'executions_total{reason="TIMED_OUT"}': 1,
    'executions_total{reason="NOT_STARTED"}': 1,
    execution_duration_seconds_count: 3,
    'output_bytes_total{stream="stdout"}': 100_000 + 3 + 5,
    'output_bytes_total{stream="stderr"}': 5,
    input_bytes_total: 12,
    'open_streams{method="Execute"}': 1,
    'open_streams{method="Attach"}': 1,
    spool_bytes: 25 * 4_096 + 3 * 4_096,
    spool_budget_bytes: 10 * 2 ** 30,
    'sessions{state="ready"}': 1,
    'session_creates_total{start="cold",outcome="ready"}': 1,
    'session_create_seconds_count{start="cold"}': 1,
    'cgroup_failures_total{what="process"}': 0,
    'cgroup_failures_total{what="container"}': 0,
    guest_reconnects_total: 0,
  });
  for (const name of open.keys()) expect(name).not.toContain(session.id);
  await Promise.all([reading.return?.(), attached.return?.()]);
  await expect
    .poll(async () => [...(await metrics.scrape())].filter(([name]) => name.startsWith('open_streams')))
    .toEqual([
      ['open_streams{method="Execute"}', 0],
      ['open_streams{method="Attach"}', 0],
    ]);

  stack.stack.kill('worker');
  // It is answered by the next worker.
  await session.run('true');
  const again = await metrics.scrape();
  expect(again.get('guest_reconnects_total')).toBe(1);
  expect(again.get('spool_bytes')).toBe(28 * 4_096);
  await session.close();
  const closed = await metrics.scrape();
  expect(closed.get('session_ends_total{reason="CLOSED_BY_CALLER"}')).toBe(1);
  expect([closed.get('sessions{state="ready"}'), closed.get('spool_bytes')]).toEqual([0, 0]);
});
