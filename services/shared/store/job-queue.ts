/** The work queue of verification jobs, for those who put jobs in. */
export interface JobQueue {
  /** Puts the job in, for one worker where it is named; the same one again within the queue's window is dropped. */
  publish(project: string, verificationId: string, workerId?: string): Promise<void>;
  /** Whether the queue has a job for it that nobody has acknowledged. */
  holds(project: string, verificationId: string, workerId?: string): Promise<boolean>;
}

/** The same queue for those who take jobs out. */
export interface JobSource {
  /** Projects that have jobs, taken or not; the jobs that are for this worker alone count as one project more. */
  projects(): Promise<string[]>;
  /** The next job of a project, if one waits. It comes again if it is not kept alive or acknowledged in time. */
  take(project: string): Promise<JobDelivery | undefined>;
  /** Whether the message with this place is still in the queue. */
  has(sequence: bigint): Promise<boolean>;
  /** Calls back with the project of every job that is put in from now on. It is a hint: some may go unheard. */
  onJob(listener: (project: string) => void): () => void;
}

/** One delivery of one job. Deliveries after it replace it; answering an old one does no harm. */
export interface JobDelivery {
  /** Its place in the queue: the same when it is delivered again, another for a copy of the job. */
  readonly sequence: bigint;
  /** What was published; not checked. */
  readonly data: Uint8Array;
  /** Done with: it never comes again. */
  ack(): Promise<void>;
  /** It comes again after a while. */
  nak(delayMs: number): void;
  /** Somebody is at it: it does not come again meanwhile. */
  working(): void;
  /** Nobody can ever do anything with it. */
  term(): void;
}
