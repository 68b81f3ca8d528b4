import { Code, ConnectError, type ServiceImpl } from '@connectrpc/connect';
import { type Health, HealthCheckResponse_ServingStatus as Status } from '../../../gen/grpc/health/v1/health_pb.js';

/** Whether this server serves, for load balancers and probes. */
export interface HealthState {
  readonly serving: boolean;
  set(serving: boolean): void;
  onChange(listener: () => void): () => void;
}

export function createHealthState(): HealthState {
  let serving = true;
  const listeners = new Set<() => void>();
  return {
    get serving() {
      return serving;
    },
    set(now) {
      if (serving === now) return;
      serving = now;
      for (const listener of [...listeners]) listener();
    },
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** `services`: the names that may be asked for; the empty one is the whole server. */
export function createHealthService(state: HealthState, services: ReadonlySet<string>): ServiceImpl<typeof Health> {
  const statusOf = (service: string): Status => {
    if (service !== '' && !services.has(service)) return Status.SERVICE_UNKNOWN;
    return state.serving ? Status.SERVING : Status.NOT_SERVING;
  };
  return {
    check({ service }) {
      const status = statusOf(service);
      if (status === Status.SERVICE_UNKNOWN) throw new ConnectError(`unknown service ${service}`, Code.NotFound);
      return { status };
    },
    async *watch({ service }, { signal }) {
      let last: Status | undefined;
      for (;;) {
        const changed = nextChange(state, signal);
        const status = statusOf(service);
        // The last thing a watcher hears of a server that stops is that it does.
        if (status !== last) yield { status };
        last = status;
        signal.throwIfAborted();
        await changed;
      }
    },
  };
}

function nextChange(state: HealthState, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      stop();
      signal.removeEventListener('abort', done);
      resolve();
    };
    const stop = state.onChange(done);
    signal.addEventListener('abort', done);
    if (signal.aborted) done();
  });
}
