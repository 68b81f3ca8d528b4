import type { KeyRecord } from '../../../gen/assay/internal/v1/records_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { RecordView } from '../../shared/store/record-view.ts';
import { createQuota, type Quota } from '../quota.ts';

/**
 * Keys of a project. Revoked ones count: they stay on record, and a store of keys that is full takes nobody's key and no
 * revocation.
 */
export function createKeyQuota(view: Pick<RecordView<KeyRecord>, 'entries' | 'whenWarm'>, limit: number): Quota {
  return createQuota({
    limit,
    async idsOf(project) {
      await view.whenWarm();
      const ids = new Set<string>();
      for (const [keyId, { value }] of view.entries()) if (value.key?.project === project) ids.add(keyId);
      return ids;
    },
    refusal(count, _limit, project) {
      const found = `the project ${project} has ${count} keys, revoked ones among them, the limit (ASSAY_LIMIT_KEYS_PER_PROJECT)`;
      const message = `${found}; use one that it has, or have the limit raised`;
      return new DomainError('KEY_QUOTA', message, { limit: String(limit) });
    },
  });
}
