import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

export interface CollectedSpan {
  readonly service: string;
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly events: readonly string[];
  readonly startNanos: bigint;
  readonly endNanos: bigint;
  readonly failed: boolean;
}

/** An OTLP/HTTP collector that keeps what it is sent. */
export interface TraceCollector {
  readonly url: string;
  /** Resolves once spans of all these names have come in the trace, with all that came. */
  spans(traceId: string, ...names: string[]): Promise<CollectedSpan[]>;
  close(): Promise<void>;
}

interface Attribute {
  readonly key: string;
  readonly value: Readonly<Record<string, unknown>>;
}

interface ExportRequest {
  readonly resourceSpans: {
    readonly resource: { readonly attributes: Attribute[] };
    readonly scopeSpans: { readonly spans: Record<string, unknown>[] }[];
  }[];
}

export async function startTraceCollector(): Promise<TraceCollector> {
  const collected: CollectedSpan[] = [];
  let waiting: (() => void)[] = [];
  const server = createServer(async (request, response) => {
    if (request.method !== 'POST' || request.url !== '/v1/traces') {
      response.writeHead(404).end();
      return;
    }
    collected.push(...spansOf(JSON.parse(await text(request)) as ExportRequest));
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
    for (const wake of waiting.splice(0)) wake();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async spans(traceId, ...names) {
      for (;;) {
        const found = collected.filter((span) => span.traceId === traceId);
        if (names.every((name) => found.some((span) => span.name === name))) return found;
        await new Promise<void>((resolve) => {
          waiting = [...waiting, resolve];
        });
      }
    },
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

function spansOf({ resourceSpans }: ExportRequest): CollectedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) => {
    const service = String(valuesOf(resource.attributes)['service.name']);
    return scopeSpans.flatMap(({ spans }) =>
      spans.map((span) => ({
        service,
        name: String(span.name),
        traceId: String(span.traceId),
        spanId: String(span.spanId),
        parentSpanId: String(span.parentSpanId ?? ''),
        attributes: valuesOf(span.attributes as Attribute[]),
        events: ((span.events ?? []) as { name: string }[]).map(({ name }) => name),
        startNanos: BigInt(String(span.startTimeUnixNano)),
        endNanos: BigInt(String(span.endTimeUnixNano)),
        failed: (span.status as { code?: number } | undefined)?.code === 2,
      })),
    );
  });
}

function valuesOf(attributes: readonly Attribute[]): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));
}
