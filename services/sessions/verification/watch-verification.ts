import { equals } from '@bufbuild/protobuf';
import { type VerificationRecord, VerificationRecordSchema } from '../../../gen/assay/internal/v1/records_pb.js';
import { isFinal, verificationOf } from '../../shared/verification/verification-state.ts';
import type { VerificationDirectory } from './verification-directory.ts';

/** The record as it is and at every change, undefined as a sign of life; ends after a final one. */
export type VerificationWatcher = (
  project: string,
  verificationId: string,
  signal: AbortSignal,
) => AsyncGenerator<VerificationRecord | undefined, void>;

const signOfLifeMs = 10_000;
const unreadChanges = 100;

export function createVerificationWatcher(verifications: VerificationDirectory): VerificationWatcher {
  return async function* (project, verificationId, signal) {
    let next = Promise.withResolvers<void>();
    const news: VerificationRecord[] = [];
    const unsubscribe = verifications.subscribe(project, verificationId, (record) => {
      news.push(record);
      // Whoever does not read misses what was in between, never what is.
      if (news.length > unreadChanges) news.shift();
      next.resolve();
    });
    // A caller that vanishes may leave this parked for ever.
    signal.addEventListener('abort', unsubscribe);
    try {
      let now = await verifications.fresh(project, verificationId);
      // What was seen before it was read is in it.
      news.length = 0;
      yield now;
      for (;;) {
        if (isFinal(verificationOf(now).state)) return;
        if (news.length === 0) {
          next = Promise.withResolvers();
          await wait(next.promise, signal);
        }
        // Asked again where nothing was heard: the view is behind while the broker is away.
        const found = news.shift() ?? (await verifications.fresh(project, verificationId));
        yield equals(VerificationRecordSchema, now, found) ? undefined : found;
        now = found;
      }
    } finally {
      signal.removeEventListener('abort', unsubscribe);
      unsubscribe();
    }
  };
}

/** Until there is news, or it is time for a sign of life. Throws the signal's reason. */
async function wait(news: Promise<void>, signal: AbortSignal): Promise<void> {
  const late = Promise.withResolvers<void>();
  const timer = setTimeout(late.resolve, signOfLifeMs);
  const abort = (): void => late.reject(signal.reason);
  signal.addEventListener('abort', abort);
  try {
    signal.throwIfAborted();
    await Promise.race([news, late.promise]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', abort);
  }
}
