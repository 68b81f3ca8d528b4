import { randomUUID } from 'node:crypto';
import { createClient, type Transport } from '@connectrpc/connect';
import { Assurance } from '../../gen/assay/v1/types_pb.js';
import { VerificationService, VerificationState } from '../../gen/assay/v1/verification_pb.js';
import { AssayError, toAssayError } from './assay-error.ts';
import { type Caller, present } from './caller.ts';
import { enumValue } from './enum-word.ts';
import type { AssuranceName } from './samples.ts';
import {
  hasEnded,
  toVerificationInfo,
  type VerificationInfo,
  type VerificationStateName,
} from './verification-info.ts';

export interface StartVerificationOptions {
  /** Grade even if there is a verdict on the same submission. */
  force?: boolean;
  /** The weakest level that is good enough. */
  requiredAssurance?: AssuranceName;
  /** The same id again returns the first verification. Random if absent, so that a retry starts no second one. */
  requestId?: string;
}

export interface ListVerificationsOptions {
  sessionId?: string;
  dataset?: string;
  sampleId?: string;
  states?: readonly VerificationStateName[];
}

/** Gradings of what sessions have changed. */
export interface Verifications {
  /** Seals what the session has changed; it is graded while the session goes on. */
  start(sessionId: string, options?: StartVerificationOptions): Promise<VerificationInfo>;
  get(verificationId: string): Promise<VerificationInfo>;
  /** The project's verifications, newest first, without tests and output. */
  list(options?: ListVerificationsOptions): AsyncIterable<VerificationInfo>;
  /** As it is and whenever it changes, to its end. It reconnects by itself. */
  watch(verificationId: string): AsyncGenerator<VerificationInfo, void, undefined>;
  /** As it is when it has ended. */
  ended(verificationId: string): Promise<VerificationInfo>;
  cancel(verificationId: string): Promise<VerificationInfo>;
  /** Grades the submission of an earlier verification again, also when its session has ended. */
  regrade(verificationId: string, options?: { requestId?: string }): Promise<VerificationInfo>;
}

export function createVerifications(transport: Transport, caller: Caller): Verifications {
  const rpc = createClient(VerificationService, transport);
  type Answer = { verification?: Parameters<typeof toVerificationInfo>[0] | undefined };
  const learn = async (call: () => Promise<Answer>): Promise<VerificationInfo> =>
    toVerificationInfo(present((await caller.repeatable(call)).verification, 'the verification'));

  async function* watch(verificationId: string): AsyncGenerator<VerificationInfo, void, undefined> {
    const patience = caller.patience();
    let told = '';
    for (;;) {
      const leaving = new AbortController();
      try {
        for await (const { verification, heartbeat } of rpc.watchVerification(
          { verificationId },
          { signal: leaving.signal },
        )) {
          patience.answered();
          patience.progressed();
          if (heartbeat !== undefined) continue;
          const info = toVerificationInfo(present(verification, 'the verification'));
          const state = [info.state, info.phase, info.attemptCount, info.cancelRequested, info.message].join('\0');
          // It was told before the stream broke.
          if (state === told) continue;
          told = state;
          yield info;
          if (hasEnded(info)) return;
        }
        throw new AssayError('CONNECTION_LOST', 'the stream ended before the verification did', {
          code: 'UNAVAILABLE',
          transient: true,
        });
      } catch (error) {
        await patience.wait(toAssayError(error, caller.endpoint));
      } finally {
        leaving.abort();
      }
    }
  }

  return {
    start(sessionId, { force = false, requiredAssurance, requestId = randomUUID() } = {}) {
      const level =
        requiredAssurance === undefined
          ? Assurance.UNSPECIFIED
          : enumValue(Assurance, requiredAssurance, 'requiredAssurance');
      return learn(() => rpc.startVerification({ sessionId, requestId, force, requiredAssurance: level }));
    },
    get: (verificationId) => learn(() => rpc.getVerification({ verificationId })),
    async *list({ sessionId = '', dataset = '', sampleId = '', states = [] } = {}) {
      const wanted = states.map((name) => enumValue(VerificationState, name, 'states'));
      let pageToken = '';
      do {
        const sample = { datasetId: dataset, sampleId };
        const request = { sessionId, sample, states: wanted, pageToken };
        const page = await caller.repeatable(() => rpc.listVerifications(request));
        yield* page.verifications.map(toVerificationInfo);
        pageToken = page.nextPageToken;
      } while (pageToken !== '');
    },
    watch,
    async ended(verificationId) {
      let last: VerificationInfo | undefined;
      for await (const info of watch(verificationId)) last = info;
      return present(last, 'the verification');
    },
    cancel: (verificationId) => learn(() => rpc.cancelVerification({ verificationId })),
    regrade: (verificationId, { requestId = randomUUID() } = {}) =>
      learn(() => rpc.regradeSubmission({ verificationId, requestId })),
  };
}
