import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Session } from '../../clients/typescript/index.ts';
import { startTestStack, type TestStack } from './stack.ts';
import { type CollectedSpan, startTraceCollector, type TraceCollector } from './trace-collector.ts';

let collector: TraceCollector;
let stack: TestStack;
let session: Session;

beforeAll(async () => {
  collector = await startTraceCollector();
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_BSP_SCHEDULE_DELAY: '50' };
  stack = await startTestStack({ env: { worker: env, sessions: env } });
  session = await stack.client.sessions.create({});
});
afterAll(async () => {
  await session?.close();
  await stack?.stop();
  await collector?.close();
});

/** A place in a trace, as a client that traces would send it. */
function place() {
  const [traceId, spanId] = [randomBytes(16).toString('hex'), randomBytes(8).toString('hex')];
  return { traceId, spanId, traceparent: `00-${traceId}-${spanId}-01` };
}

function byName(spans: CollectedSpan[], name: string): CollectedSpan {
  const found = spans.find((span) => span.name === name);
  if (found === undefined) throw new Error(`no span ${name} among ${spans.map((span) => span.name)}`);
  return found;
}

const rpc = 'assay.v1.ExecutionService/Execute';

describe('a trace', () => {
  test('leads from the client over both services into the guest', async () => {
    const { traceId, spanId, traceparent } = place();
    await session.run('echo hello; exit 3', { traceparent });
    const spans = await collector.spans(traceId, rpc, 'execution', 'guest');
    expect(spans.length).toBe(3);
    const [call, execution, guest] = [byName(spans, rpc), byName(spans, 'execution'), byName(spans, 'guest')];
    expect([call.parentSpanId, execution.parentSpanId, guest.parentSpanId]).toEqual([
      spanId,
      call.spanId,
      execution.spanId,
    ]);
    expect([call.service, execution.service, guest.service]).toEqual([
      'assay-sessions',
      'assay-sandbox-worker',
      'assay-sandbox-worker',
    ]);
    expect(execution.events).toEqual(['accepted', 'started', 'finished']);
    expect(execution.attributes).toMatchObject({
      'assay.session_id': session.id,
      'assay.reason': 'EXITED',
      'assay.exit_code': 3,
      'assay.stdout_bytes': 6,
    });
    expect(guest.attributes).toMatchObject({ 'assay.wait_status': 3 << 8 });
    expect(guest.endNanos).toBeGreaterThan(guest.startNanos);
    expect(JSON.stringify(execution.attributes)).not.toContain('hello');
  });

  test('of a command that could not be started says so', async () => {
    const { traceId, traceparent } = place();
    await session.run(['/no/such/program'], { traceparent }).catch(() => {});
    const spans = await collector.spans(traceId, rpc, 'execution');
    expect(byName(spans, 'execution')).toMatchObject({
      failed: true,
      attributes: { 'assay.reason': 'PROGRAM_NOT_STARTED' },
    });
    expect(byName(spans, rpc).failed).toBe(true);
  });

  test('goes on when the worker dies under the command', async () => {
    const { traceId, traceparent } = place();
    const execution = session.execute('echo here; cat', { traceparent, input: true });
    for await (const event of session.attach(execution.id)) if (event.type === 'stdout') break;
    stack.stack.kill('worker');
    await execution.stdin.end();
    await execution.result();
    const spans = await collector.spans(traceId, rpc, 'execution', 'guest');
    const [call, below, guest] = [byName(spans, rpc), byName(spans, 'execution'), byName(spans, 'guest')];
    expect([below.parentSpanId, guest.parentSpanId]).toEqual([call.spanId, below.spanId]);
    expect(below.attributes).toMatchObject({ 'assay.reason': 'EXITED' });
  });

  test('that its client does not sample is recorded nowhere', async () => {
    const silent = place();
    await session.run('true', { traceparent: silent.traceparent.replace(/01$/, '00') });
    const seen = place();
    await session.run('true', { traceparent: seen.traceparent });
    await collector.spans(seen.traceId, rpc, 'execution', 'guest');
    expect(await collector.spans(silent.traceId)).toEqual([]);
  });

  test('is begun by the server where the client sends nonsense', async () => {
    const result = await session.run('true', { traceparent: `00-${'0'.repeat(32)}-${'g'.repeat(16)}-01` });
    expect(result.exitCode).toBe(0);
  });
});
