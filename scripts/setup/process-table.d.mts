/** A process by its id and the moment it began: an id alone may have been given to another process since. */
export interface ProcessIdentity {
  readonly pid: number;
  readonly name: string;
  /** In the kernel's ticks since the machine started. */
  readonly startTime: string;
}

export function identify(pid: number): ProcessIdentity | undefined;
export function isSame(identity: Pick<ProcessIdentity, 'pid' | 'startTime'> | undefined): boolean;
export function findProcesses(accepts: (name: string, commandLine: readonly string[]) => boolean): ProcessIdentity[];
/** Lowers the oom_score_adj of a process, where the kernel permits that. */
export function lowerOomScore(pid: number, score: number): void;
export function endProcess(identity: ProcessIdentity, graceMs: number, signal?: NodeJS.Signals): Promise<boolean>;
