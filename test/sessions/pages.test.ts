import { once } from 'node:events';
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createPageBudget } from '../../services/sessions/server/page-budget.ts';
import { openHttp2 } from './raw-call.ts';
import { adminKey, clientsOf, type RunningService, runService } from './running-service.ts';

let service: RunningService;
beforeAll(async () => {
  service = await runService({ env: { ASSAY_LIMIT_PAGES_PER_SECOND_PER_ADDRESS: '5' } });
});
afterAll(() => service.stop());

describe('the budget of pages', () => {
  const limits = { pagesPerSecond: 20, pagesPerSecondPerAddress: 15 };
  const answered = (budget: ReturnType<typeof createPageBudget>, address: string, asked: number) =>
    Array.from({ length: asked }, () => budget.spend(address)).filter((refusal) => refusal === undefined).length;

  test('is one for each address', () => {
    const budget = createPageBudget(limits, () => 0);
    expect(answered(budget, 'a', 100)).toBe(15);
    expect(budget.spend('a')).toContain('ASSAY_LIMIT_PAGES_PER_SECOND_PER_ADDRESS');
    expect(answered(budget, 'b', 100)).toBe(15);
  });

  test('is one for all, and leaves every address enough for the probes of an orchestrator', () => {
    const budget = createPageBudget(limits, () => 0);
    for (let flooder = 0; flooder < 4; flooder += 1) expect(answered(budget, `flooder ${flooder}`, 100)).toBe(15);
    expect(answered(budget, 'flooder 4', 100)).toBe(10);
    expect(budget.spend('another flooder')).toBeUndefined();
    expect(answered(budget, 'orchestrator', 10)).toBe(10);
    expect(budget.spend('orchestrator')).toContain('(ASSAY_LIMIT_PAGES_PER_SECOND)');
  });

  test('comes back every second', () => {
    let ms = 0;
    const budget = createPageBudget(limits, () => ms);
    expect(answered(budget, 'a', 100)).toBe(15);
    ms = 1_000;
    expect(answered(budget, 'a', 100)).toBe(15);
  });
});

/** Sends so many requests at once on one connection of HTTP/1.1, and resolves with all that came back once it is closed. */
async function pipeline(path: string, count: number): Promise<string> {
  const socket = connect(service.port, '127.0.0.1').setEncoding('latin1');
  let said = '';
  socket.on('data', (text) => (said += text)).on('error', () => {});
  const closed = once(socket, 'close');
  socket.write(`GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`.repeat(count));
  await closed;
  return said;
}

describe('a flood of pages', () => {
  test.each(['/livez', '/readyz', '/healthz', '/nothing'])('of %s on HTTP/1.1 is cut off', async (path) => {
    const said = await pipeline(path, 5_000);
    const statuses = said.match(/^HTTP\/1\.1 \d+/gm);
    expect(statuses?.length).toBeLessThan(100);
    expect(statuses).toContain('HTTP/1.1 429');
    expect(said).toContain('over the limit of 5 pages a second and address (ASSAY_LIMIT_PAGES_PER_SECOND_PER_ADDRESS)');
  });

  test('on HTTP/2 is refused but for a few', async () => {
    const session = await openHttp2(service.port);
    const ask = async () => {
      const stream = session.request({ ':path': '/healthz' });
      const [headers] = await once(stream, 'response');
      stream.close();
      return headers[':status'] as number;
    };
    const statuses = await Promise.all(Array.from({ length: 100 }, ask));
    expect(statuses.filter((status) => status === 429).length).toBeGreaterThan(50);
    session.destroy();
  });

  test('leaves calls with a key alone', async () => {
    const { server } = clientsOf(service.transport(adminKey));
    const flood = Array.from({ length: 20 }, () => pipeline('/healthz', 1_000));
    for (let call = 0; call < 20; call += 1) expect((await server.getServerInfo({})).version).toBeDefined();
    await Promise.all(flood);
  });
});
