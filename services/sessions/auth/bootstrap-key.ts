import { create } from '@bufbuild/protobuf';
import { timestampNow } from '@bufbuild/protobuf/wkt';
import { KeyRecordSchema } from '../../../gen/assay/internal/v1/records_pb.js';
import { Scope } from '../../../gen/assay/v1/key_pb.js';
import { ConfigError } from '../../shared/config.ts';
import type { KeyStore } from '../../shared/store/key-store.ts';
import { hashApiKey, matchesApiKey, parseApiKey } from './api-key.ts';
import { operatorProject } from './project.ts';

/** Makes sure that the operator's first key works. A revoked one stays revoked. */
export async function ensureBootstrapKey(keys: KeyStore, text: string): Promise<void> {
  const key = parseApiKey(text);
  if (key === undefined) throw new ConfigError('ASSAY_BOOTSTRAP_KEY_FILE: expected a key, assay_<id>_<secret>');
  const secretSha256 = hashApiKey(text);
  const record = create(KeyRecordSchema, {
    key: {
      keyId: key.keyId,
      project: operatorProject,
      scopes: [Scope.ADMIN],
      description: "the operator's first key",
      createTime: timestampNow(),
    },
    secretSha256,
  });
  if ((await keys.create(record)) !== undefined) return;
  const found = await keys.get(key.keyId);
  if (found !== undefined && matchesApiKey(text, found.value.secretSha256)) return;
  throw new ConfigError(
    `ASSAY_BOOTSTRAP_KEY_FILE: the store has another key with the id ${key.keyId}; make a new file`,
  );
}
