import { afterAll, beforeAll, expect, test } from 'vitest';
import { Scope } from '../../gen/assay/v1/key_pb.js';
import { reasonOf } from './reason.ts';
import { clientsOf, type RunningService, runService } from './running-service.ts';

let service: RunningService;
beforeAll(async () => {
  service = await runService({ env: { ASSAY_LIMIT_KEYS_PER_PROJECT: '3' } });
});
afterAll(() => service.stop());

test('a project makes only so many keys, at once or revoked, and other projects go on making theirs', async () => {
  const { secret, keyId } = await service.makeKey(Scope.ADMIN, 'alpha');
  const { keys } = clientsOf(service.transport(secret));
  const request = { scopes: [Scope.AGENT], requestId: 'first' };
  await keys.createKey(request);
  const burst = await Promise.allSettled(Array.from({ length: 5 }, () => keys.createKey({ scopes: [Scope.AGENT] })));
  const refused = burst.filter((made) => made.status === 'rejected').map(({ reason }) => reason);
  expect(refused.map(reasonOf)).toEqual(Array(4).fill('KEY_QUOTA'));
  expect(refused[0]?.rawMessage).toContain('the project alpha has 3 keys, revoked ones among them');
  const made = burst.find((settled) => settled.status === 'fulfilled');
  await keys.revokeKey({ keyId: made?.value.key?.keyId ?? keyId });
  expect(reasonOf(await keys.createKey({ scopes: [Scope.AGENT] }).catch((error) => error))).toBe('KEY_QUOTA');
  // The answer to a request that made one is told again.
  expect((await keys.createKey(request)).key?.keyId).toBeDefined();
  expect((await service.makeKey(Scope.AGENT, 'beta')).keyId).toBeDefined();
});
