import { create } from '@bufbuild/protobuf';
import { timestampNow } from '@bufbuild/protobuf/wkt';
import { beforeEach, describe, expect, test } from 'vitest';
import { type KeyRecord, KeyRecordSchema } from '../../../gen/assay/internal/v1/records_pb.js';
import { Scope } from '../../../gen/assay/v1/key_pb.js';
import { hashApiKey, makeApiKey } from '../../../services/sessions/auth/api-key.ts';
import { type Authenticator, createAuthenticator } from '../../../services/sessions/auth/authenticator.ts';
import { createRecordMap, type RecordMap } from '../../../services/shared/store/record-map.ts';

const method = 'assay.v1.SessionService/GetSession';
const denialsPerSecond = 3;
let lookups: string[];
let view: RecordMap<KeyRecord>;
let authenticator: Authenticator;
beforeEach(() => {
  lookups = [];
  view = createRecordMap<KeyRecord>(() => 0);
  authenticator = createAuthenticator({
    keys: {
      async get(keyId) {
        lookups.push(keyId);
        return undefined;
      },
      create: () => Promise.reject(new Error('not here')),
      update: () => Promise.reject(new Error('not here')),
    },
    view: { ...view, warm: true, drop() {}, note() {}, whenWarm: async () => {}, close() {} },
    requirements: new Map([[method, 'agent']]),
    denialsPerSecond,
  });
});

const key = makeApiKey();
function put(revoked: boolean, revision: number): void {
  const record = create(KeyRecordSchema, {
    key: {
      ...{ keyId: key.keyId, project: 'p', scopes: [Scope.AGENT] },
      ...(revoked ? { revokeTime: timestampNow() } : {}),
    },
    secretSha256: hashApiKey(key.text),
  });
  view.put(key.keyId, record, revision, 0);
}
const ask = (text: string, address: string): Promise<string> =>
  authenticator.authenticate(`Bearer ${text}`, method, address).then(
    (caller) => caller?.keyId ?? 'nobody',
    (error) => error.reason,
  );

describe('an address that shows too many keys that are not valid', () => {
  test('costs no more lookups in the store, and is told so', async () => {
    const answers: string[] = [];
    for (let count = 0; count < 20; count++) answers.push(await ask(makeApiKey().text, '192.0.2.1'));
    expect(lookups).toHaveLength(denialsPerSecond);
    expect(answers.slice(denialsPerSecond)).toEqual(Array(20 - denialsPerSecond).fill('RATE_LIMITED'));
  });

  test('has no more lookups under way than it may make in a second', async () => {
    await Promise.all(Array.from({ length: 20 }, () => ask(makeApiKey().text, '192.0.2.1')));
    expect(lookups).toHaveLength(denialsPerSecond);
  });

  test('is counted once for each call', async () => {
    const answers: string[] = [];
    for (let count = 0; count < denialsPerSecond; count++) answers.push(await ask(makeApiKey().text, '192.0.2.1'));
    expect(answers).toEqual(Array(denialsPerSecond).fill('UNAUTHENTICATED'));
  });

  test('still uses a key that is known, and others are not held up', async () => {
    put(false, 1);
    for (let count = 0; count < 20; count++) await ask('nonsense', '192.0.2.1');
    expect(await ask('nonsense', '192.0.2.1')).toBe('RATE_LIMITED');
    expect(await ask(key.text, '192.0.2.1')).toBe(key.keyId);
    expect(await ask('nonsense', '192.0.2.2')).toBe('UNAUTHENTICATED');
  });
});

describe('whoever waits for a key to be revoked', () => {
  test('is told when it is, and not before', () => {
    const told: string[] = [];
    put(false, 1);
    const stop = authenticator.onRevoked(key.keyId, ({ reason }) => told.push(reason));
    expect(told).toEqual([]);
    put(true, 2);
    expect(told).toEqual(['UNAUTHENTICATED']);
    stop();
    put(true, 3);
    expect(told).toHaveLength(1);
  });

  test('is told at once if it was revoked before', () => {
    const told: string[] = [];
    put(true, 1);
    authenticator.onRevoked(key.keyId, ({ reason }) => told.push(reason));
    expect(told).toEqual(['UNAUTHENTICATED']);
  });
});
