import { DiagLogLevel, diag, ROOT_CONTEXT, type Span, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { resourceFromAttributes } from '@opentelemetry/resources';
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import type { Logger } from './log.ts';
import type { TraceSpan, Tracing } from './tracing.ts';

const traceparentShape = /^[0-9a-e][0-9a-f]-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/;
const closeMs = 3_000;

/** Spans for a collector, over OTLP/HTTP. Only openTracing loads this file. */
export function createOtlpTracing(
  serviceName: string,
  env: Readonly<Record<string, string | undefined>>,
  log: Logger,
): Tracing {
  const warn = (message: string): void => log.warn({ reason: message }, 'traces');
  const quiet = (): void => {};
  diag.setLogger(
    { error: warn, warn, info: quiet, debug: quiet, verbose: quiet },
    { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
  );
  const provider = new TracerProvider({
    resource: resourceFromAttributes({ 'service.name': env.OTEL_SERVICE_NAME || serviceName }),
    sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(numberFrom(env.OTEL_TRACES_SAMPLER_ARG, 1)) }),
    spanProcessors: [
      new BatchSpanProcessor({
        exporter: new OTLPTraceExporter(),
        scheduledDelayMillis: numberFrom(env.OTEL_BSP_SCHEDULE_DELAY, 5_000),
      }),
    ],
  });
  const tracer = provider.getTracer('assay');

  function wrap(span: Span): TraceSpan {
    const { traceId, spanId, traceFlags } = span.spanContext();
    return {
      traceparent: `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`,
      event: (name, atMs = Date.now()) => void span.addEvent(name, atMs),
      child(name, startTime, endMs, attributes) {
        const below = trace.setSpan(ROOT_CONTEXT, span);
        tracer.startSpan(name, { startTime, attributes }, below).end(endMs);
      },
      end(attributes, failure) {
        span.setAttributes(attributes);
        if (failure !== undefined) span.setStatus({ code: SpanStatusCode.ERROR, message: failure });
        span.end();
      },
    };
  }

  return {
    begin({ name, kind, traceparent, attributes, startMs }) {
      const spanKind = kind === 'server' ? SpanKind.SERVER : SpanKind.INTERNAL;
      const at = startMs === undefined ? {} : { startTime: startMs };
      return wrap(tracer.startSpan(name, { kind: spanKind, attributes, ...at }, parentOf(traceparent)));
    },
    async close() {
      // A collector that is away must not hold up the end of the service.
      const late = new Promise<void>((resolve) => setTimeout(resolve, closeMs).unref());
      await Promise.race([provider.shutdown().catch((error: Error) => warn(error.message)), late]);
    },
  };
}

/** A peer's span, as far as its name can be believed. */
function parentOf(traceparent: string | undefined) {
  const [, traceId = '', spanId = '', flags = ''] = traceparentShape.exec(traceparent ?? '') ?? [];
  if (/^0*$/.test(traceId) || /^0*$/.test(spanId)) return ROOT_CONTEXT;
  const parent = { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1, isRemote: true };
  return trace.setSpanContext(ROOT_CONTEXT, parent);
}

function numberFrom(text: string | undefined, otherwise: number): number {
  const number = Number(text);
  return text === undefined || text === '' || !Number.isFinite(number) ? otherwise : number;
}
