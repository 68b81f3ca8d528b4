import type { Logger } from './log.ts';

/** What is said of a span beside its name and times. */
export type TraceAttributes = Readonly<Record<string, string | number | boolean>>;

/** One step of a trace, open until it is ended. */
export interface TraceSpan {
  /** How the next service names it as its parent, in the form of W3C Trace Context. */
  readonly traceparent: string;
  event(name: string, atMs?: number): void;
  /** A step below this one that is over already. */
  child(name: string, startMs: number, endMs: number, attributes: TraceAttributes): void;
  /** Call once. A failure marks the span as failed. */
  end(attributes: TraceAttributes, failure?: string): void;
}

export interface SpanStart {
  readonly name: string;
  /** `server` where a call arrives, `internal` for what goes on behind it. */
  readonly kind: 'server' | 'internal';
  /** What the caller sent; anything that is no traceparent begins a trace of its own. */
  readonly traceparent: string | undefined;
  readonly attributes: TraceAttributes;
  /** Now unless told. */
  readonly startMs?: number;
}

/** Where the spans of a process go. Undefined in its place: nobody wants them, and nothing is spent on them. */
export interface Tracing {
  begin(start: SpanStart): TraceSpan;
  /** Sends what is left. */
  close(): Promise<void>;
}

/** On when a collector is configured, by the variables that OpenTelemetry itself defines; else nothing of it is loaded. */
export async function openTracing(
  serviceName: string,
  env: Readonly<Record<string, string | undefined>>,
  log: Logger,
): Promise<Tracing | undefined> {
  const endpoint = env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT || env.OTEL_EXPORTER_OTLP_ENDPOINT;
  if (!endpoint || env.OTEL_SDK_DISABLED === 'true' || env.OTEL_TRACES_EXPORTER === 'none') return undefined;
  const { createOtlpTracing } = await import('./otlp-tracing.ts');
  log.info({ endpoint: endpoint.replace(/\/\/[^/@]*@/, '//') }, 'sending traces');
  return createOtlpTracing(serviceName, env, log);
}
