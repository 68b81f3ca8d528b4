import type { VerificationRecord } from '../../../gen/assay/internal/v1/records_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import { verificationKey } from '../../shared/store/nats-verification-store.ts';
import type { Seen } from '../../shared/store/record-map.ts';
import type { RecordView } from '../../shared/store/record-view.ts';
import type { Stored } from '../../shared/store/session-store.ts';
import type { VerificationStore } from '../../shared/store/verification-store.ts';
import type { VerificationChange } from '../../shared/verification/verification-change.ts';
import { verificationOf } from '../../shared/verification/verification-state.ts';

/** Verification records: lists from memory, single ones from the store. */
export interface VerificationDirectory extends Pick<VerificationStore, 'room' | 'remove' | 'tidy'> {
  /** From the store. Rejects with VERIFICATION_NOT_FOUND, also for one of another project. */
  fresh(project: string, verificationId: string): Promise<VerificationRecord>;
  /** From the store; undefined where there is none. */
  get(project: string, verificationId: string): Promise<VerificationRecord | undefined>;
  /** All of a project, from memory. */
  ofProject(project: string): Promise<VerificationRecord[]>;
  /** Everything this process knows. */
  all(): Iterable<Seen<VerificationRecord>>;
  /** Undefined: there is one with this id. */
  create(record: VerificationRecord): Promise<VerificationRecord | undefined>;
  change(project: string, verificationId: string, what: VerificationChange): Promise<VerificationRecord>;
  /** Publishes the event of a record unless the stream has it. Says whether it is there now. */
  announceMissing(stored: Stored<VerificationRecord>): Promise<boolean>;
  /** Calls back on every change that is seen. Returns what ends that. */
  subscribe(project: string, verificationId: string, listener: (record: VerificationRecord) => void): () => void;
  whenWarm(): Promise<void>;
}

const warmWithinMs = 5_000;

export function createVerificationDirectory(
  store: VerificationStore,
  view: RecordView<VerificationRecord>,
): VerificationDirectory {
  const noted = (stored: Stored<VerificationRecord>): VerificationRecord => {
    view.note(verificationKey(stored.value.project, verificationOf(stored.value).verificationId), stored);
    return stored.value;
  };
  const get = async (project: string, verificationId: string): Promise<VerificationRecord | undefined> => {
    const stored = await store.get(project, verificationId);
    return stored === undefined ? undefined : noted(stored);
  };
  const { room, remove, tidy } = store;
  return {
    ...{ get, room, remove, tidy },
    async fresh(project, verificationId) {
      const found = await get(project, verificationId);
      if (found === undefined) throw noVerification(verificationId);
      return found;
    },
    async ofProject(project) {
      if (!view.warm) await warm(view);
      return Array.from(view.ofGroup(project), ({ value }) => value);
    },
    *all() {
      for (const [, seen] of view.entries()) yield seen;
    },
    async create(record) {
      const stored = await store.create(record);
      return stored === undefined ? undefined : noted(stored);
    },
    async change(project, verificationId, what) {
      const stored = await store.change(project, verificationId, what);
      if (stored === undefined) throw noVerification(verificationId);
      return noted(stored);
    },
    announceMissing: async (stored) => (await store.isAnnounced(stored)) || store.announce(stored),
    subscribe: (project, verificationId, listener) =>
      view.subscribe(verificationKey(project, verificationId), ({ value }) => listener(value)),
    whenWarm: () => view.whenWarm(),
  };
}

function noVerification(verificationId: string): DomainError {
  const message = `no verification ${verificationId} in this project; ListVerifications shows what there is`;
  return new DomainError('VERIFICATION_NOT_FOUND', message, { verification_id: verificationId });
}

async function warm(view: RecordView<VerificationRecord>): Promise<void> {
  const timeout = Promise.withResolvers<never>();
  const message = 'the list of verifications is not loaded yet; try again';
  const timer = setTimeout(() => timeout.reject(new DomainError('STORE_UNAVAILABLE', message)), warmWithinMs);
  try {
    await Promise.race([view.whenWarm(), timeout.promise]);
  } finally {
    clearTimeout(timer);
  }
}
