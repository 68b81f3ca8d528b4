import type { KeyRecord } from '../../../gen/assay/internal/v1/records_pb.js';
import type { Stored } from './session-store.ts';

/** API keys, without their secrets. */
export interface KeyStore {
  get(keyId: string): Promise<Stored<KeyRecord> | undefined>;
  /** Writes a new key. Undefined: one with this id exists. */
  create(record: KeyRecord): Promise<Stored<KeyRecord> | undefined>;
  /** As SessionStore.update: read, change, compare-and-set. */
  update(keyId: string, change: (record: KeyRecord) => KeyRecord | undefined): Promise<Stored<KeyRecord> | undefined>;
}
