import type { KeyRecord } from '../../../gen/assay/internal/v1/records_pb.js';
import { Scope } from '../../../gen/assay/v1/key_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { KeyStore } from '../../shared/store/key-store.ts';
import type { RecordView } from '../../shared/store/record-view.ts';
import { matchesApiKey, parseApiKey } from './api-key.ts';
import type { Caller } from './caller.ts';
import { createRate } from './rate.ts';
import type { Requirement } from './scope-table.ts';

export interface Authenticator {
  /**
   * Rejects with UNAUTHENTICATED, SCOPE_MISSING, or RATE_LIMITED for an address that shows too many keys that are not
   * valid. Undefined: the call needs no key.
   */
  authenticate(authorization: string | undefined, method: string, address: string): Promise<Caller | undefined>;
  /** Calls back when the key is revoked, at once if it is already. Returns what ends that. */
  onRevoked(keyId: string, listener: (error: DomainError) => void): () => void;
}

export interface AuthenticatorDeps {
  readonly keys: KeyStore;
  readonly view: RecordView<KeyRecord>;
  readonly requirements: ReadonlyMap<string, Requirement>;
  /** Calls of one address without a valid key, and lookups of keys that this instance has not seen. */
  readonly denialsPerSecond: number;
}

/** A key that was found good, and the record that it was held against. */
interface Proof {
  readonly keyId: string;
  readonly record: KeyRecord;
}

const proofsLimit = 1_000;

const notValid = 'the API key is not valid';
const howTo = 'send `authorization: Bearer assay_<id>_<secret>` with a key that is not revoked';

export function createAuthenticator(deps: AuthenticatorDeps): Authenticator {
  const { keys, view, requirements, denialsPerSecond } = deps;
  const denials = createRate(denialsPerSecond);

  /** Counts a denial of the address. Throws RATE_LIMITED when there were too many. */
  const countDenial = (address: string): void => {
    if (denials.spend(address)) return;
    const message = `more than ${denialsPerSecond} calls without a valid key in a second (ASSAY_LIMIT_DENIALS_PER_SECOND); wait a second and try again`;
    throw new DomainError('RATE_LIMITED', message);
  };
  const deny = (address: string, message: string): DomainError => {
    countDenial(address);
    return new DomainError('UNAUTHENTICATED', `${message}; ${howTo}`);
  };
  const lookUp = async (keyId: string, address: string): Promise<KeyRecord | undefined> => {
    // Counted before the store is asked: an address over its rate costs no lookups, and has few under way.
    countDenial(address);
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
  const prove = async (authorization: string, address: string): Promise<Proof> => {
    const known = proofs.get(authorization);
    // Any change of the record, revoking it above all, makes another object of it.
    if (known !== undefined && view.warm && view.get(known.keyId)?.value === known.record) return known;
    proofs.delete(authorization);
    const bearer = /^bearer +(\S+)$/i.exec(authorization.trim())?.[1];
    if (bearer === undefined) throw deny(address, 'no API key was sent');
    const key = parseApiKey(bearer);
    if (key === undefined) throw deny(address, notValid);
    const seen = view.warm ? view.get(key.keyId)?.value : undefined;
    const record = seen ?? (await lookUp(key.keyId, address));
    // One sentence for unknown, wrong and revoked: a prober learns nothing from the difference.
    if (record?.key !== undefined && matchesApiKey(key.text, record.secretSha256))
      return remember(authorization, { keyId: key.keyId, record });
    throw seen === undefined ? refused() : deny(address, notValid);
  };
  return {
    async authenticate(authorization, method, address) {
      const requirement = requirements.get(method);
      if (requirement === undefined) throw new DomainError('SCOPE_MISSING', `no key may call ${method}`);
      if (requirement === 'nothing') return undefined;
      const { keyId, record } = await prove(authorization ?? '', address);
      if (record.key === undefined || record.key.revokeTime !== undefined) throw deny(address, notValid);
      const { scopes, project } = record.key;
      const admin = scopes.includes(Scope.ADMIN);
      const grader = admin || scopes.includes(Scope.GRADER);
      const agent = admin || scopes.includes(Scope.AGENT);
      const enough = { key: true, agent, grader, admin }[requirement];
      if (!enough) throw tooNarrow(method, requirement);
      return { keyId, project, admin, grader };
    },
    onRevoked(keyId, listener) {
      const tell = ({ value }: { value: KeyRecord }): void => {
        if (value.key?.revokeTime !== undefined) listener(refused());
      };
      const unsubscribe = view.subscribe(keyId, tell);
      const seen = view.get(keyId);
      if (seen !== undefined) tell(seen);
      return unsubscribe;
    },
  };
}

function refused(): DomainError {
  return new DomainError('UNAUTHENTICATED', `${notValid}; ${howTo}`);
}

function tooNarrow(method: string, scope: string): DomainError {
  const message = `${method} needs the scope ${scope}, which this key does not have; use a key that has it`;
  return new DomainError('SCOPE_MISSING', message, { method, scope });
}
