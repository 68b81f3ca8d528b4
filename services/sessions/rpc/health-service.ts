import { Code, ConnectError, type ServiceImpl } from '@connectrpc/connect';
import { type Health, HealthCheckResponse_ServingStatus as Status } from '../../../gen/health/v1/health_pb.js';
import type { Readiness } from '../server/readiness.ts';

/** `services`: the names that may be asked for; the empty one is the whole server. */
export function createHealthService(readiness: Readiness, services: ReadonlySet<string>): ServiceImpl<typeof Health> {
  const statusOf = (service: string): Status => {
    if (service !== '' && !services.has(service)) return Status.SERVICE_UNKNOWN;
    return readiness.ready ? Status.SERVING : Status.NOT_SERVING;
  };
  return {
    async check({ service }) {
      await readiness.look();
      const status = statusOf(service);
      if (status === Status.SERVICE_UNKNOWN) throw new ConnectError(`unknown service ${service}`, Code.NotFound);
      return { status };
    },
    async list() {
      await readiness.look();
      const all = ['', ...services].map((service) => [service, { status: statusOf(service) }]);
      return { statuses: Object.fromEntries(all) };
    },
    async *watch({ service }, { signal }) {
      let last: Status | undefined;
      await readiness.look();
      for (;;) {
        const changed = nextChange(readiness, signal);
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

function nextChange(readiness: Readiness, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      stop();
      signal.removeEventListener('abort', done);
      resolve();
    };
    const stop = readiness.onChange(done);
    signal.addEventListener('abort', done);
    if (signal.aborted) done();
  });
}
