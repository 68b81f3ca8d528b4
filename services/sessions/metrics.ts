import { Counter, Gauge, Histogram, Registry } from '@prometheus-io/client';
import { SessionState } from '../../gen/assay/v1/session_pb.js';

/** What `/metrics` shows. */
export interface Metrics {
  /** Counts a call; the returned function is called once, with the code it ended with. */
  begin(method: string, streaming: boolean): (code: string) => void;
  render(): Promise<{ contentType: string; text: string }>;
}

const buckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

/** `sessionStates` is asked when somebody looks, so that no change has to be counted along. */
export function createMetrics(sessionStates: () => Iterable<SessionState>): Metrics {
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
  new Gauge({
    name: 'assay_sessions',
    help: 'Sessions by the state of their record.',
    labelNames: ['state'] as const,
    registers,
    collect() {
      const counts = new Map<SessionState, number>();
      for (const state of sessionStates()) counts.set(state, (counts.get(state) ?? 0) + 1);
      this.reset();
      for (const [state, count] of counts) this.set({ state: SessionState[state] ?? String(state) }, count);
    },
  });
  return {
    begin(method, streaming) {
      const began = process.hrtime.bigint();
      if (streaming) open.inc({ method });
      return (code) => {
        if (streaming) open.dec({ method });
        requests.inc({ method, code });
        durations.observe({ method }, Number(process.hrtime.bigint() - began) / 1e9);
      };
    },
    render: async () => ({ contentType: registry.contentType, text: await registry.metrics() }),
  };
}
