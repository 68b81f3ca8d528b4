import { statfsSync } from 'node:fs';
import { PauseReason } from '../../../gen/assay/v1/session_pb.js';
import type { Logger } from '../../shared/log.ts';
import type { DiskPressure } from '../host/disk-pressure.ts';
import type { Sandbox } from './sandbox.ts';
import type { Sandboxes } from './sandboxes.ts';

/** Who wrote within this time is a writer. */
const writerMs = 10_000;
/** Growth below this is not worth a pause: directories, and what a shell notes down. */
const worthBytes = 262_144;

export interface WriterHoldDeps {
  readonly sandboxes: Pick<Sandboxes, 'live' | 'hold' | 'letGo'>;
  readonly pressure: Pick<DiskPressure, 'near' | 'reason'>;
  readonly log: Logger;
  /** What a sandbox has written to its disk. Undefined: nobody can tell. */
  readonly usedBytes?: (sandbox: Sandbox) => number | undefined;
}

/**
 * Pauses the sessions that write while the disk of the host is nearly full, and lets them go on when there is room. The
 * others run on: one that fills its disk stops nobody else.
 */
export interface WriterHold {
  /** To be called often: a program can write a gibibyte in a second. */
  look(nowMs: number): void;
}

export function createWriterHold(deps: WriterHoldDeps): WriterHold {
  const { sandboxes, pressure, log, usedBytes = usedOf } = deps;
  const seen = new Map<Sandbox, { readonly bytes: number; readonly grewMs: number }>();
  /** Being paused or resumed. */
  const changing = new Set<Sandbox>();

  const isWriter = (sandbox: Sandbox, nowMs: number): boolean => {
    const bytes = usedBytes(sandbox);
    if (bytes === undefined) return true;
    const last = seen.get(sandbox);
    if (last === undefined || bytes < last.bytes) seen.set(sandbox, { bytes, grewMs: last?.grewMs ?? -Infinity });
    else if (bytes >= last.bytes + worthBytes) seen.set(sandbox, { bytes, grewMs: nowMs });
    return nowMs - (seen.get(sandbox)?.grewMs ?? -Infinity) < writerMs;
  };
  const change = (sandbox: Sandbox, what: string, work: () => Promise<void>): void => {
    if (changing.has(sandbox)) return;
    changing.add(sandbox);
    log.warn({ session_id: sandbox.sessionId }, what);
    work()
      .catch((error) => log.error({ session_id: sandbox.sessionId, err: error }, `${what}: it failed, trying again`))
      .finally(() => changing.delete(sandbox));
  };
  return {
    look(nowMs) {
      const { near, reason } = pressure;
      if (!near && reason === undefined) seen.clear();
      for (const sandbox of sandboxes.live) {
        if (sandbox.held?.pauseReason === PauseReason.DISK_PRESSURE) {
          if (reason === undefined) {
            change(sandbox, 'resuming a session: the disk has room again', () =>
              sandboxes.letGo(sandbox, PauseReason.DISK_PRESSURE),
            );
          }
        } else if (
          (near || reason !== undefined) &&
          !sandbox.paused &&
          isWriter(sandbox, nowMs) &&
          reason !== undefined
        ) {
          const why = { pauseReason: PauseReason.DISK_PRESSURE, message: reason } as const;
          change(sandbox, 'pausing a session that writes: the disk is nearly full', () => sandboxes.hold(sandbox, why));
        }
      }
    },
  };
}

/** Through the container's root, whose size is that of the session's own disk. */
function usedOf({ pid }: Sandbox): number | undefined {
  if (pid === undefined) return 0;
  try {
    const { bsize, blocks, bfree } = statfsSync(`/proc/${pid}/root`);
    return (blocks - bfree) * bsize;
  } catch {
    return undefined;
  }
}
