import type { KeyRecord } from '../../../gen/assay/events/v1/records_pb.js';
import { Scope } from '../../../gen/assay/v1/key_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { KeyStore } from '../../shared/store/key-store.ts';
import type { RecordView } from '../../shared/store/record-view.ts';
import { matchesApiKey, parseApiKey } from './api-key.ts';
import type { Caller } from './caller.ts';
import type { Requirement } from './scope-table.ts';

export interface Authenticator {
  /** Rejects with UNAUTHENTICATED or SCOPE_MISSING. Undefined: the call needs no key. */
  authenticate(authorization: string | undefined, method: string): Promise<Caller | undefined>;
}

export interface AuthenticatorDeps {
  readonly keys: KeyStore;
  readonly view: RecordView<KeyRecord>;
  readonly requirements: ReadonlyMap<string, Requirement>;
}

/** A key that was found good, and the record that it was held against. */
interface Proof {
  readonly keyId: string;
  readonly record: KeyRecord;
}

const proofsLimit = 1_000;

const howTo = 'send `authorization: Bearer assay_<id>_<secret>` with a key that is not revoked';

export function createAuthenticator({ keys, view, requirements }: AuthenticatorDeps): Authenticator {
  const find = async (keyId: string): Promise<KeyRecord | undefined> => {
    const seen = view.warm ? view.get(keyId) : undefined;
    if (seen !== undefined) return seen.value;
    const stored = await keys.get(keyId);
    if (stored !== undefined) view.note(keyId, stored);
    return stored?.value;
  };
  /** By the header that brought them, so that a caller's next call costs no hash. Only good keys come in. */
  const proofs = new Map<string, Proof>();

  const remember = (authorization: string, proof: Proof): Proof => {
    const oldest = proofs.size >= proofsLimit ? proofs.keys().next().value : undefined;
    if (oldest !== undefined) proofs.delete(oldest);
    proofs.set(authorization, proof);
    return proof;
  };
  const prove = async (authorization: string): Promise<Proof> => {
    const known = proofs.get(authorization);
    // Any change of the record, revoking it above all, makes another object of it.
    if (known !== undefined && view.warm && view.get(known.keyId)?.value === known.record) return known;
    proofs.delete(authorization);
    const bearer = /^bearer +(\S+)$/i.exec(authorization.trim())?.[1];
    if (bearer === undefined) throw new DomainError('UNAUTHENTICATED', `no API key was sent; ${howTo}`);
    const key = parseApiKey(bearer);
    const record = key === undefined ? undefined : await find(key.keyId);
    // One sentence for unknown, wrong and revoked: a prober learns nothing from the difference.
    if (key === undefined || record?.key === undefined || !matchesApiKey(key.text, record.secretSha256))
      throw refused();
    return remember(authorization, { keyId: key.keyId, record });
  };
  return {
    async authenticate(authorization, method) {
      const requirement = requirements.get(method);
      if (requirement === undefined) throw new DomainError('SCOPE_MISSING', `no key may call ${method}`);
      if (requirement === 'nothing') return undefined;
      const { keyId, record } = await prove(authorization ?? '');
      if (record.key === undefined || record.key.revokeTime !== undefined) throw refused();
      const { scopes, project } = record.key;
      const admin = scopes.includes(Scope.ADMIN);
      const grader = admin || scopes.includes(Scope.GRADER);
      const agent = admin || scopes.includes(Scope.AGENT);
      const enough = { key: true, agent, grader, admin }[requirement];
      if (!enough) throw tooNarrow(method, requirement);
      return { keyId, project, admin, grader };
    },
  };
}

function refused(): DomainError {
  return new DomainError('UNAUTHENTICATED', `the API key is not valid; ${howTo}`);
}

function tooNarrow(method: string, scope: string): DomainError {
  const message = `${method} needs the scope ${scope}, which this key does not have; use a key that has it`;
  return new DomainError('SCOPE_MISSING', message, { method, scope });
}
