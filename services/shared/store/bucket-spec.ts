const dayMs = 86_400_000;
const mebibyte = 1_048_576;

interface Spec {
  readonly maxAgeMs: number;
  readonly maxBytes: number;
}

/** What is kept, for how long and how much of it. */
export const bucketSpecs = {
  /**
   * Live sessions, and for a moment those that have just ended. A live session is written at least when it ends, and none
   * lives longer than a day: nothing alive is forgotten.
   */
  assay_sessions: { maxAgeMs: 30 * dayMs, maxBytes: 1_024 * mebibyte },
  /** Sessions that were given to a worker which may not have heard of it. The worker removes what it has dealt with. */
  assay_reminders: { maxAgeMs: 2 * dayMs, maxBytes: 16 * mebibyte },
  /**
   * A key is written once and must work until it is revoked; a revoked one must stay revoked. An age that bites would
   * forget both, so this one is a hundred years: it exists because every bucket has one.
   */
  assay_keys: { maxAgeMs: 36_500 * dayMs, maxBytes: 64 * mebibyte },
  /** As long as the sessions they belong to. What they say at length is in the object store, for a time of its own. */
  assay_verifications: { maxAgeMs: 30 * dayMs, maxBytes: 1_024 * mebibyte },
  /** One small record for each version of a sample that was put to the test; put to the test again it is written again. */
  assay_validations: { maxAgeMs: 365 * dayMs, maxBytes: 64 * mebibyte },
  /** A worker writes every few seconds. One that was silent for thirty days has no session left in the bucket above. */
  assay_workers: { maxAgeMs: 30 * dayMs, maxBytes: 16 * mebibyte },
} as const satisfies Record<string, Spec>;

export type BucketName = keyof typeof bucketSpecs;

export const bucketNames = Object.keys(bucketSpecs) as BucketName[];

/** Records of ended sessions. A full stream refuses: who makes room in it takes from the project that holds most. */
export const endedStream = {
  name: 'ASSAY_ENDED_SESSIONS',
  subjects: ['assay.ended.>'],
  maxAgeMs: 30 * dayMs,
  maxBytes: 512 * mebibyte,
} as const;

export const eventStream = {
  name: 'ASSAY_EVENTS',
  subjects: ['assay.events.>'],
  maxAgeMs: 7 * dayMs,
  maxBytes: 1_024 * mebibyte,
  /** Of one session or verification. All share the stream: one that changes for ever must not push out the events of others. */
  maxOfOne: 100,
} as const;

/** Jobs that nobody has acknowledged. One that is older than any verification may take is given up by its record first. */
export const jobStream = {
  name: 'ASSAY_JOBS',
  subjects: ['assay.jobs.>'],
  maxAgeMs: 30 * dayMs,
  maxBytes: 256 * mebibyte,
  /** Of one project, taken and not acknowledged. */
  maxAckPending: 10_000,
  consumerIdleMs: 7 * dayMs,
} as const;
