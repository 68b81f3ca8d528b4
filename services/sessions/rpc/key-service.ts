import { createHash } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import type { ServiceImpl } from '@connectrpc/connect';
import { type KeyRecord, KeyRecordSchema } from '../../../gen/assay/internal/v1/records_pb.js';
import { type Key, KeySchema, type KeyService, Scope } from '../../../gen/assay/v1/key_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { KeyStore } from '../../shared/store/key-store.ts';
import type { RecordView } from '../../shared/store/record-view.ts';
import { hashApiKey, makeApiKey } from '../auth/api-key.ts';
import { type Caller, requireCaller } from '../auth/caller.ts';
import { operatorProject } from '../auth/project.ts';
import type { Quota } from '../quota.ts';
import { checkKeyId, checkProject } from '../validation/identifier.ts';
import { checkCreateKeyRequest } from '../validation/key-request.ts';
import type { PageTokens } from '../validation/page-token.ts';
import { checkPageSize } from '../validation/session-request.ts';

/** In ListKeys. */
const everyProject = '*';

export interface KeyServiceDeps {
  readonly keys: KeyStore;
  readonly view: RecordView<KeyRecord>;
  readonly quota: Quota;
  readonly tokens: PageTokens;
  readonly nowMs: () => number;
}

export function createKeyService(deps: KeyServiceDeps): ServiceImpl<typeof KeyService> {
  const { keys, view, quota, tokens, nowMs } = deps;
  return {
    async createKey(request, context) {
      checkCreateKeyRequest(request);
      const project = projectFor(request.project, requireCaller(context), 'makes');
      const made = makeApiKey(request.requestId === '' ? undefined : keyIdOfRequest(project, request.requestId));
      const { description } = request;
      const scopes = [...new Set(request.scopes)].sort();
      const key = create(KeySchema, {
        keyId: made.keyId,
        project,
        scopes,
        description,
        createTime: timestampFromMs(nowMs()),
      });
      // A request that is repeated makes none.
      if (view.get(made.keyId) !== undefined) return { key: await sameKey(keys, key) };
      const record = create(KeyRecordSchema, { key, secretSha256: hashApiKey(made.text) });
      const stored = await quota(project, made.keyId, async () => {
        const written = await keys.create(record);
        if (written !== undefined) view.note(made.keyId, written);
        return written;
      });
      return stored === undefined ? { key: await sameKey(keys, key) } : { key, secret: made.text };
    },
    async listKeys(request, context) {
      if (request.project !== '' && request.project !== everyProject) checkProject(request.project);
      const project = projectFor(request.project, requireCaller(context), 'lists');
      const size = checkPageSize(request.pageSize);
      const query = `keys ${project}`;
      const after = request.pageToken === '' ? '' : tokens.open(query, request.pageToken);
      await view.whenWarm();
      const all = [...view.entries()].map(([, seen]) => seen.value.key).filter((key) => key !== undefined);
      const rest = all
        .filter((key) => (project === everyProject || key.project === project) && key.keyId > after)
        .sort((a, b) => (a.keyId < b.keyId ? -1 : 1));
      const page = rest.slice(0, size);
      const last = page.at(-1);
      const nextPageToken = last === undefined || rest.length <= size ? '' : tokens.make(query, last.keyId);
      return { keys: page, nextPageToken };
    },
    async revokeKey({ keyId }, context) {
      checkKeyId(keyId);
      const { project } = requireCaller(context);
      const mayRevoke = (key: Key): boolean => project === operatorProject || key.project === project;
      const stored = await keys.update(keyId, (record) => {
        const { key } = record;
        if (key === undefined || !mayRevoke(key) || key.revokeTime !== undefined) return undefined;
        const revoked = { ...create(KeySchema, key), revokeTime: timestampFromMs(nowMs()) };
        return { ...create(KeyRecordSchema, record), key: revoked };
      });
      const key = stored?.value.key;
      if (stored === undefined || key === undefined || !mayRevoke(key)) {
        const message = `no key ${keyId} in this project; ListKeys shows what there is`;
        throw new DomainError('KEY_NOT_FOUND', message, { key_id: keyId });
      }
      view.note(keyId, stored);
      return { key };
    },
  };
}

/** Whose keys are meant. Those of other projects are the operator's business alone. */
function projectFor(asked: string, caller: Caller, does: 'makes' | 'lists'): string {
  if (asked === '' || asked === caller.project) return caller.project;
  if (caller.project === operatorProject) return asked;
  const whose = asked === everyProject ? 'every project' : asked;
  const message = `project: a key of ${caller.project} ${does} no keys of ${whose}; use a key of ${operatorProject}`;
  throw new DomainError('SCOPE_MISSING', message, { field: 'project' });
}

/** The id may be known to everybody who knows the request id; the secret is random all the same. */
function keyIdOfRequest(project: string, requestId: string): string {
  return createHash('sha256').update(`key\0${project}\0${requestId}`).digest('hex').slice(0, 24);
}

async function sameKey(keys: KeyStore, asked: Key): Promise<Key> {
  const found = (await keys.get(asked.keyId))?.value.key;
  const same =
    found !== undefined &&
    found.project === asked.project &&
    found.description === asked.description &&
    found.scopes.map((scope) => Scope[scope]).join() === asked.scopes.map((scope) => Scope[scope]).join();
  if (same) return found;
  const message = `request_id: another request made key ${asked.keyId} with it; choose a new request_id`;
  throw new DomainError('REQUEST_ID_REUSED', message, { field: 'request_id', key_id: asked.keyId });
}
