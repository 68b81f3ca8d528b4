import { Counter, Gauge, Histogram, Registry } from '@prometheus-io/client';
import { SessionState } from '../../gen/assay/v1/session_pb.js';
import { VerificationState } from '../../gen/assay/v1/verification_pb.js';
import type { WorkerStateName } from './worker/worker-directory.ts';

/** What `/metrics` shows. */
export interface Metrics {
  /** Counts a call; the returned function is called once, with the code it ended with. */
  begin(method: string, streaming: boolean): (code: string) => void;
  /** Counts an error of this service by its reason. */
  failed(reason: string): void;
  render(): Promise<{ contentType: string; text: string }>;
}

const buckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

/** What is asked when somebody looks, so that no change has to be counted along. */
export interface MetricsSources {
  sessionStates(): Iterable<SessionState>;
  /** One word for each verification. */
  verificationStates(): Iterable<VerificationState>;
  /** Every registered worker, by how this instance sees it. */
  workerStates(): Iterable<WorkerStateName>;
  /** Open connections to workers. */
  workerLinks(): number;
}

/** What is counted for one method, with its labels bound once. */
interface MethodMetrics {
  readonly open: { inc(): void; dec(): void };
  readonly durations: { observe(seconds: number): void };
  readonly codes: Map<string, { inc(): void }>;
}

export function createMetrics(sources: MetricsSources): Metrics {
  const registry = new Registry();
  const registers = [registry];
  const requests = new Counter({
    name: 'assay_requests_total',
    help: 'Calls that ended, by method and code.',
    labelNames: ['method', 'code'] as const,
    registers,
  });
  const durations = new Histogram({
    name: 'assay_request_duration_seconds',
    help: 'How long calls took, streams to their end.',
    labelNames: ['method'] as const,
    buckets,
    registers,
  });
  const open = new Gauge({
    name: 'assay_open_streams',
    help: 'Streams that are open now.',
    labelNames: ['method'] as const,
    registers,
  });
  const errors = new Counter({
    name: 'assay_errors_total',
    help: 'Errors that this service answered with, by reason; those that a worker answered with are counted by code only.',
    labelNames: ['reason'] as const,
    registers,
  });
  gaugeOfStates(registry, sources);
  const methods = new Map<string, MethodMetrics>();
  const bound = (method: string): MethodMetrics => {
    const known = methods.get(method);
    if (known !== undefined) return known;
    const made = { open: open.labels(method), durations: durations.labels(method), codes: new Map() };
    methods.set(method, made);
    return made;
  };
  const count = (method: string, { codes }: MethodMetrics, code: string): void => {
    const counter = codes.get(code) ?? requests.labels(method, code);
    codes.set(code, counter);
    counter.inc();
  };
  return {
    begin(method, streaming) {
      const began = performance.now();
      const of = bound(method);
      if (streaming) of.open.inc();
      return (code) => {
        if (streaming) of.open.dec();
        count(method, of, code);
        of.durations.observe((performance.now() - began) / 1_000);
      };
    },
    failed: (reason) => errors.inc({ reason }),
    render: async () => ({ contentType: registry.contentType, text: await registry.metrics() }),
  };
}

function gaugeOfStates(registry: Registry, sources: MetricsSources): void {
  const registers = [registry];
  new Gauge({
    name: 'assay_sessions',
    help: 'Sessions by the state of their record.',
    labelNames: ['state'] as const,
    registers,
    collect() {
      const counts = new Map<SessionState, number>();
      for (const state of sources.sessionStates()) counts.set(state, (counts.get(state) ?? 0) + 1);
      this.reset();
      for (const [state, count] of counts) this.set({ state: SessionState[state] ?? String(state) }, count);
    },
  });
  new Gauge({
    name: 'assay_verifications',
    help: 'Verifications by the state of their record.',
    labelNames: ['state'] as const,
    registers,
    collect() {
      const counts = new Map<VerificationState, number>();
      for (const state of sources.verificationStates()) counts.set(state, (counts.get(state) ?? 0) + 1);
      this.reset();
      for (const [state, count] of counts) this.set({ state: VerificationState[state] ?? String(state) }, count);
    },
  });
  new Gauge({
    name: 'assay_workers',
    help: 'Registered workers, as this instance sees them.',
    labelNames: ['state'] as const,
    registers,
    collect() {
      const counts = { reachable: 0, unreachable: 0, silent: 0, draining: 0 };
      for (const state of sources.workerStates()) counts[state] += 1;
      for (const [state, count] of Object.entries(counts)) this.set({ state }, count);
    },
  });
  new Gauge({
    name: 'assay_worker_links',
    help: 'Connections to workers that are open or being opened.',
    registers,
    collect() {
      this.set(sources.workerLinks());
    },
  });
}
