import { DeliverPolicy, JsHeaders, type JsMsg } from '@nats-io/jetstream';
import type { Broker } from './broker.ts';
import { endedStream } from './bucket-spec.ts';
import { createdHeader, stateHeader, storedBytes } from './nats-session-archive.ts';
import type { ArchiveEntry } from './session-archive.ts';

/** Tells of every archived session, without its record: first of those that are there, then of each that comes. */
export interface ArchiveWatch {
  /** Whether all has been told but what was archived a moment ago. */
  readonly caughtUp: boolean;
  /** All that was there when the watch began has been told. */
  whenComplete(): Promise<void>;
  stop(): void;
}

export interface ArchiveWatchOptions {
  readonly broker: Broker;
  readonly tell: (entry: ArchiveEntry) => void;
  readonly onError: (error: unknown) => void;
}

const rewatchDelayMs = 250;
const subjectPrefix = 'assay.ended.';

export function watchArchive({ broker, tell, onError }: ArchiveWatchOptions): ArchiveWatch {
  const complete = Promise.withResolvers<void>();
  let stopped = false;
  let stopWatch = (): void => {};
  let lastPlace = 0;
  let caughtUp = false;
  const catchUp = (): void => {
    caughtUp = true;
    complete.resolve();
  };

  const watchOnce = async (): Promise<void> => {
    const { streams } = await broker.js.jetstreamManager(false);
    const { state } = await streams.info(endedStream.name);
    const consumer = await broker.js.consumers.get(endedStream.name, {
      ...{ headers_only: true, deliver_policy: DeliverPolicy.StartSequence, opt_start_seq: lastPlace + 1 },
    });
    const messages = await consumer.consume();
    stopWatch = () => messages.stop();
    if (stopped) messages.stop();
    if (lastPlace >= state.last_seq || state.messages === 0) catchUp();
    for await (const message of messages) {
      lastPlace = message.seq;
      tell(entryOf(message));
      if (!caughtUp && (message.info.pending === 0 || message.seq >= state.last_seq)) catchUp();
    }
  };
  // A consumer would find out by its missing heartbeats; a new one is sure and at once.
  const unfollow = broker.onConnectionChange((connected) => {
    caughtUp = false;
    if (connected) stopWatch();
  });
  void (async () => {
    while (!stopped) {
      await broker.whenConnected().then(watchOnce).catch(onError);
      caughtUp = false;
      if (!stopped) await new Promise((resolve) => setTimeout(resolve, rewatchDelayMs));
    }
  })();
  return {
    get caughtUp() {
      return caughtUp;
    },
    whenComplete: () => complete.promise,
    stop() {
      stopped = true;
      unfollow();
      stopWatch();
    },
  };
}

function entryOf({ subject, headers, seq }: JsMsg): ArchiveEntry {
  const [project = '', sessionId = ''] = subject.slice(subjectPrefix.length).split('.');
  return {
    ...{ project, sessionId },
    createMs: Number(headers?.get(createdHeader)),
    state: Number(headers?.get(stateHeader)),
    place: seq,
    bytes: storedBytes(subject, Number(headers?.get(JsHeaders.MessageSizeHdr))),
  };
}
