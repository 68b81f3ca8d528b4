import { createClient, type Transport } from '@connectrpc/connect';
import { KeyService, Scope, type Key as WireKey } from '../../gen/assay/v1/key_pb.js';
import { type Caller, present } from './caller.ts';
import { enumValue } from './enum-word.ts';
import { toDate } from './time.ts';

/** What a key may do, as the server names it. */
export type ScopeName = Exclude<keyof typeof Scope, 'UNSPECIFIED'>;

export interface KeyInfo {
  readonly id: string;
  readonly project: string;
  readonly scopes: readonly ScopeName[];
  readonly description: string;
  readonly createTime: Date | undefined;
  readonly revokeTime: Date | undefined;
}

export interface CreateKeyOptions {
  scopes: readonly ScopeName[];
  description?: string;
  /** Absent: the caller's own project. */
  project?: string;
}

/** API keys. Needs a key with the ADMIN scope. */
export interface Keys {
  /** The secret is the whole key; it is shown this once. */
  create(options: CreateKeyOptions): Promise<{ key: KeyInfo; secret: string }>;
  /** Of the caller's own project, unless an admin of the operator's project names another, or `*` for all. */
  list(options?: { project?: string }): AsyncIterable<KeyInfo>;
  revoke(id: string): Promise<KeyInfo>;
}

export function createKeys(transport: Transport, caller: Caller): Keys {
  const rpc = createClient(KeyService, transport);
  return {
    async create({ scopes, description = '', project = '' }) {
      const request = { scopes: scopes.map((name) => enumValue(Scope, name, 'scopes')), description, project };
      // A repetition would not show the secret again, so an answer that got lost is an error.
      const answer = await caller.once(() => rpc.createKey(request));
      return { key: toKeyInfo(present(answer.key, 'the key')), secret: answer.secret };
    },
    async *list({ project = '' } = {}) {
      let pageToken = '';
      do {
        const query = { pageToken, project };
        const page = await caller.repeatable(() => rpc.listKeys(query));
        yield* page.keys.map(toKeyInfo);
        pageToken = page.nextPageToken;
      } while (pageToken !== '');
    },
    async revoke(keyId) {
      const answer = await caller.repeatable(() => rpc.revokeKey({ keyId }));
      return toKeyInfo(present(answer.key, 'the key'));
    },
  };
}

function toKeyInfo(wire: WireKey): KeyInfo {
  return {
    id: wire.keyId,
    project: wire.project,
    scopes: wire.scopes.map((scope) => Scope[scope] as ScopeName),
    description: wire.description,
    createTime: toDate(wire.createTime),
    revokeTime: toDate(wire.revokeTime),
  };
}
