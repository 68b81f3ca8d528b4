import { readFileSync, statfsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { askBroker } from './broker-request.mjs';

const lookEveryMs = 2_000;
/** Below this the worker gives up its reserve; a broker that is started with less may fail again at once. */
const roomBytes = 16 << 20;
/** A restart that did not help is not tried again sooner. */
const restartEveryMs = 30_000;

/**
 * Restarts a broker that takes no more writes, once its disk has room. Current versions of nats-server give up a stream
 * whose write failed until they are started again; version 2.9 goes on by itself. Returns what ends the watch.
 */
export function watchBroker({ child, broker, graceMs, onNotice = () => {} }) {
  const stopped = new AbortController();
  const run = async () => {
    for (let restartedMs = Number.NEGATIVE_INFINITY; ; ) {
      await sleep(lookEveryMs, undefined, { signal: stopped.signal, ref: false });
      if (!child.pid || performance.now() - restartedMs < restartEveryMs) continue;
      const problem = await writeProblem(broker);
      if (problem === undefined || stopped.signal.aborted || !hasRoom(broker.store)) continue;
      const notice = `the broker takes no more writes (${problem}), and its disk has room: restarting it`;
      child.log.note(notice);
      onNotice(notice);
      restartedMs = performance.now();
      await child.replace(graceMs);
    }
  };
  run().catch(() => {
    // Stopped.
  });
  return () => stopped.abort();
}

/** Why the broker takes no writes any more. Undefined: it does, or it does not answer. */
async function writeProblem({ port, systemAuthFile }) {
  try {
    const { user, password } = JSON.parse(readFileSync(systemAuthFile, 'utf8'));
    const answer = JSON.parse(await askBroker({ port, user, password }, '$SYS.REQ.SERVER.PING.HEALTHZ'));
    const { error = '' } = answer.data ?? {};
    return /write error|not enabled/i.test(error) ? error : undefined;
  } catch {
    return undefined;
  }
}

function hasRoom(directory) {
  try {
    const { bavail, bsize, files, ffree } = statfsSync(directory);
    // Some file systems do not count inodes.
    return bavail * bsize >= roomBytes && (files === 0 || ffree > 0);
  } catch {
    return false;
  }
}
