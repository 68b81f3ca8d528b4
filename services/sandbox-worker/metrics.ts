import { Counter, Gauge, Histogram, Registry } from '@prometheus-io/client';
import type { SpoolBudget } from './execution/spool-budget.ts';
import type { WorkerHost } from './host/worker-host.ts';
import type { Meter } from './meter.ts';
import type { Sandbox } from './sandbox/sandbox.ts';
import type { WarmPool } from './sandbox/warm-pool.ts';

/** What a scrape asks for, because it is known anyway. */
export interface MetricsSources {
  readonly budget: SpoolBudget;
  readonly capacity: number;
  readonly pool: Pick<WarmPool, 'size' | 'capacity' | 'hits' | 'misses'>;
  readonly host: Pick<WorkerHost, 'pressure' | 'shortages' | 'room'>;
  readonly live: () => Iterable<Pick<Sandbox, 'paused' | 'held' | 'file'>>;
}

export interface WorkerMetrics {
  readonly meter: Meter;
  render(sources: MetricsSources): Promise<{ contentType: string; text: string }>;
}

const executionBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 15, 60, 300, 1_800, 7_200];
const createBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2.5, 5, 10, 30, 60];

const gradingBuckets = [0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 60, 120, 300, 600, 1_800, 7_200];

/** What became of other attempts is in lower case. */
const isVerdict = (outcome: string): boolean => outcome === outcome.toUpperCase();

/** Every label has a fixed set of values: no session, project or command is ever one. */
export function createWorkerMetrics(): WorkerMetrics {
  const registry = new Registry();
  const registers = [registry];
  const counter = <Label extends string>(name: string, help: string, labelNames: readonly Label[]) =>
    new Counter({ name: `assay_worker_${name}`, help, labelNames, registers });
  const histogram = <Label extends string>(
    name: string,
    help: string,
    labelNames: readonly Label[],
    buckets: number[],
  ) => new Histogram({ name: `assay_worker_${name}`, help, labelNames, buckets, registers });

  const ended = counter('executions_total', 'Executions that ended, by why.', ['reason']);
  const durations = histogram('execution_duration_seconds', 'How long executions ran.', [], executionBuckets);
  const made = counter('session_creates_total', 'Sandboxes made for sessions, by start and outcome.', [
    'start',
    'outcome',
  ]);
  const makings = histogram('session_create_seconds', 'How long sandboxes took to be ready.', ['start'], createBuckets);
  const ends = counter('session_ends_total', 'Sandboxes that were closed or failed, by why.', ['reason']);
  const graded = counter('gradings_total', 'Attempts to grade that ended, by verdict or by what became of them.', [
    'outcome',
  ]);
  const gradeTimes = histogram('grading_seconds', 'How long gradings with a verdict took.', [], gradingBuckets);
  const stills = histogram('seal_pause_seconds', 'How long sessions stood still to be sealed.', [], createBuckets);
  const meter: Meter = {
    outputBytes: { 1: 0, 2: 0 },
    inputBytes: 0,
    openStreams: { Execute: 0, Attach: 0 },
    guestReconnects: 0,
    cgroupFailures: { container: 0, process: 0 },
    executionEnded(reason, seconds) {
      ended.inc({ reason });
      if (seconds !== undefined) durations.observe(seconds);
    },
    sandboxMade(start, outcome, seconds) {
      made.inc({ start, outcome });
      if (outcome === 'ready') makings.observe({ start }, seconds);
    },
    sandboxEnded: (reason) => ends.inc({ reason }),
    gradings: 0,
    gradingEnded(outcome, seconds) {
      graded.inc({ outcome });
      if (isVerdict(outcome)) gradeTimes.observe(seconds);
    },
    stoodStill: (seconds) => stills.observe(seconds),
  };
  const gather = readLater(registry, meter);
  return {
    meter,
    async render(sources) {
      gather(sources);
      return { contentType: registry.contentType, text: await registry.metrics() };
    },
  };
}

/** The numbers that are counted elsewhere, brought over when somebody looks. */
function readLater(registry: Registry, meter: Meter): (sources: MetricsSources) => void {
  const registers = [registry];
  const total = <Label extends string>(name: string, help: string, labelNames: readonly Label[] = []) =>
    new Counter({ name: `assay_worker_${name}`, help, labelNames, registers });
  const gauge = <Label extends string>(name: string, help: string, labelNames: readonly Label[] = []) =>
    new Gauge({ name: `assay_worker_${name}`, help, labelNames, registers });

  const output = total('output_bytes_total', 'Output of executions that was stored, by stream.', ['stream']);
  const input = total('input_bytes_total', 'Input that guests took.');
  const reconnects = total('guest_reconnects_total', 'Guests that connected again.');
  const unplaced = total('cgroup_failures_total', 'What runs without the cgroup it should have.', ['what']);
  const dropped = total('spool_dropped_bytes_total', 'Kept output given up for the budget, by what it was of.', ['of']);
  const streams = gauge('open_streams', 'Readers of executions, by the call they came with.', ['method']);
  const spool = gauge('spool_bytes', 'Disk that kept output takes.');
  const budget = gauge('spool_budget_bytes', 'Disk that kept output may take.');
  const gradings = gauge('gradings', 'Submissions that are being graded here.');
  const sessions = gauge('sessions', 'Sandboxes by state.', ['state']);
  const diskFree = gauge('disk_free_bytes', 'Free bytes of the fullest file system that the worker writes to.');
  const inodesFree = gauge('disk_free_inodes', 'Free inodes of the one with the fewest.');
  const pressed = gauge('disk_pressure', '1 while new work is refused because a disk is nearly full.');
  const memoryFree = gauge('memory_available_bytes', 'Memory that is available on the host.');
  const pidsFree = gauge('free_pids', 'Processes and threads that the host can have beside those there are.');
  const shortages = gauge('host_shortages', 'What the host is short of for a session with the default limits.');
  const capacity = gauge('session_capacity', 'Sandboxes that this worker takes at one time.');

  const warm = gauge('warm_pool_sandboxes', 'Sandboxes that wait in the warm pool.');
  const warmCapacity = gauge('warm_pool_capacity', 'Sandboxes that the warm pool holds when it is full.');
  const taken = total('warm_pool_takes_total', 'Sessions that asked the warm pool for a sandbox, by what they found.', [
    'result',
  ]);

  return (sources) => {
    for (const each of [output, input, reconnects, unplaced, dropped, taken]) each.reset();
    warm.set(sources.pool.size);
    warmCapacity.set(sources.pool.capacity);
    taken.inc({ result: 'hit' }, sources.pool.hits);
    taken.inc({ result: 'miss' }, sources.pool.misses);
    output.inc({ stream: 'stdout' }, meter.outputBytes[1]);
    output.inc({ stream: 'stderr' }, meter.outputBytes[2]);
    input.inc(meter.inputBytes);
    reconnects.inc(meter.guestReconnects);
    for (const [what, count] of Object.entries(meter.cgroupFailures)) unplaced.inc({ what }, count);
    for (const [of, bytes] of Object.entries(sources.budget.droppedBytes)) dropped.inc({ of }, bytes);
    for (const [method, count] of Object.entries(meter.openStreams)) streams.set({ method }, count);
    spool.set(sources.budget.usedBytes);
    budget.set(sources.budget.limitBytes);
    gradings.set(meter.gradings);
    capacity.set(sources.capacity);
    const { rooms, reason } = sources.host.pressure;
    diskFree.set(Math.min(...rooms.map(({ freeBytes }) => freeBytes)));
    inodesFree.set(Math.min(...rooms.filter(({ totalInodes }) => totalInodes > 0).map(({ freeInodes }) => freeInodes)));
    pressed.set(reason === undefined ? 0 : 1);
    const { freeMemoryBytes, totalPids, usedPids } = sources.host.room();
    memoryFree.set(freeMemoryBytes);
    pidsFree.set(totalPids - usedPids);
    shortages.set(sources.host.shortages().length);
    const states = { creating: 0, ready: 0, paused: 0, held: 0 };
    for (const { paused, held, file } of sources.live()) {
      states[file.containerId === '' ? 'creating' : held ? 'held' : paused ? 'paused' : 'ready'] += 1;
    }
    for (const [state, count] of Object.entries(states)) sessions.set({ state }, count);
  };
}
