import { createServer } from 'node:net';
import { create } from '@bufbuild/protobuf';
import { pino } from 'pino';
import { expect, test } from 'vitest';
import { NetworkMode, NetworkSchema } from '../../../gen/assay/v1/types_pb.js';
import type { EgressSession } from '../../../services/sandbox-worker/network/egress/proxy.ts';
import type { FullNetwork } from '../../../services/sandbox-worker/network/full/full-network.ts';
import { createNetworks, type NetworksDeps } from '../../../services/sandbox-worker/network/networks.ts';
import type { DomainError } from '../../../services/shared/domain-error.ts';

const all = [NetworkMode.NONE, NetworkMode.EGRESS, NetworkMode.FULL];
const sandbox = { project: 'alpha', pid: 1, slot: { runDirectory: 'c1' } };
const network = (mode: NetworkMode, ...allow: string[]) => create(NetworkSchema, { mode, allow });

/** What happened to the host, in order, and networks on a host where everything works unless a test says otherwise. */
function networksWith(given: Partial<NetworksDeps>, broken: Partial<FullNetwork> = {}) {
  const happened: string[] = [];
  const full: FullNetwork = {
    obstacle: async () => undefined,
    attach: async ({ resolverFile }) => void happened.push(`attach ${resolverFile}`),
    keep: async () => void happened.push('keep'),
    remove: async () => void happened.push('remove'),
    ...broken,
  };
  const door = {
    obstacle: async () => undefined,
    listen: async (pid: number, port: number) => {
      happened.push(`listen ${pid} ${port}`);
      return createServer();
    },
    close: () => {},
  };
  const proxy = {
    serve: (_: unknown, { project, sessionId, allow }: EgressSession) => {
      happened.push(`serve ${project} ${sessionId} ${allow.map(({ host }) => host)}`);
      return { close: () => void happened.push(`close ${sessionId}`) };
    },
  };
  const allow = [{ host: 'registry.test', below: false, port: 'web' as const }];
  const made = createNetworks({ modes: all, door, proxy, allow, full, log: pino({ enabled: false }), ...given });
  return { made, happened };
}

function refusal(run: () => void): string {
  try {
    run();
  } catch (error) {
    return (error as DomainError).reason;
  }
  return 'none';
}

test.each<{ title: string; given: Partial<NetworksDeps>; broken?: Partial<FullNetwork>; words: string[] }>([
  { title: 'all that is permitted and possible', given: {}, words: ['network_egress', 'network_full'] },
  { title: 'no more than is permitted', given: { modes: [NetworkMode.NONE] }, words: [] },
  { title: 'no egress without a door', given: { door: undefined }, words: ['network_full'] },
  {
    title: 'no full where the rules cannot be installed',
    given: {},
    broken: { obstacle: async () => 'iptables failed' },
    words: ['network_egress'],
  },
])('a worker offers $title', async ({ given, broken, words }) => {
  const { made } = networksWith(given, broken);
  await made.ready();
  expect(made.capabilities).toEqual(words);
  for (const [mode, word] of [
    [NetworkMode.EGRESS, 'network_egress'],
    [NetworkMode.FULL, 'network_full'],
  ] as const) {
    const refused = refusal(() => made.check(network(mode)));
    expect(refused).toBe(words.includes(word) ? 'none' : 'NETWORK_NOT_OFFERED');
  }
  expect(refusal(() => made.check(undefined))).toBe('none');
});

test('a session without a network costs the host nothing', async () => {
  const { made, happened } = networksWith({});
  for (const none of [undefined, network(NetworkMode.UNSPECIFIED), network(NetworkMode.NONE)]) {
    expect(made.environment(none)).toEqual({});
    await made.attach('ses_1', none, sandbox);
    await made.reattach('ses_1', none, sandbox);
    made.detach('ses_1');
  }
  expect(happened).toEqual([]);
});

test("an egress session has the operator's hosts and its own, and a gate that closes with it", async () => {
  const { made, happened } = networksWith({});
  await made.attach('ses_1', network(NetworkMode.EGRESS, 'mine.test'), sandbox);
  made.detach('ses_1');
  made.detach('ses_1');
  expect(happened).toEqual(['listen 1 3128', 'serve alpha ses_1 registry.test,mine.test', 'close ses_1']);
});

test('rules stay for as long as a session needs them, also beyond the worker', async () => {
  const { made, happened } = networksWith({});
  await made.ready();
  await made.attach('ses_1', network(NetworkMode.FULL), sandbox);
  await made.reattach('ses_2', network(NetworkMode.FULL), sandbox);
  made.detach('ses_1');
  await made.settle();
  await made.close();
  expect(happened).toEqual(['attach c1/resolv.conf', 'keep']);
  made.detach('ses_2');
  await made.settle();
  expect(happened.at(-1)).toBe('remove');
});

test('a network that cannot be attached is an error that says so, and holds no rules', async () => {
  const failing = { attach: async () => Promise.reject(new Error('ip failed: no')) };
  const { made, happened } = networksWith({}, failing);
  await made.ready();
  const error = await made.attach('ses_1', network(NetworkMode.FULL), sandbox).catch((e) => e);
  expect([error.reason, error.message]).toEqual(['ENGINE_FAILED', expect.stringContaining('ip failed: no')]);
  await made.settle();
  expect(happened).toEqual(['remove']);
});

test.each<{ title: string; given: Partial<NetworksDeps>; broken: Partial<FullNetwork> }>([
  { title: 'could not be tried just now', given: {}, broken: { obstacle: async () => 'iptables failed: busy' } },
  { title: 'are not permitted any more', given: { modes: [NetworkMode.NONE] }, broken: {} },
])('rules that a worker before left go also where new ones $title', async ({ given, broken }) => {
  const { made, happened } = networksWith(given, broken);
  await made.ready();
  await made.settle();
  expect(happened).toEqual(['remove']);
});

test('rules that cannot be removed stop a worker that offers the network, and no other', async () => {
  const stuck = { remove: async () => Promise.reject(new Error('iptables-save failed: no')) };
  const { made: offering } = networksWith({}, stuck);
  await offering.ready();
  await expect(offering.settle()).rejects.toThrow('iptables-save failed: no');
  const { made: other } = networksWith({}, { ...stuck, obstacle: async () => 'iptables failed' });
  await other.ready();
  await other.settle();
});

test.each([
  { title: 'keeps its rules', failure: undefined, done: [] },
  { title: 'keeps none where it fails', failure: new Error('ip failed: no'), done: ['remove'] },
])('what is being attached when the worker stops $title, and nothing is attached later', async ({ failure, done }) => {
  const linked = Promise.withResolvers<void>();
  const { made, happened } = networksWith({}, { attach: () => linked.promise });
  await made.ready();
  const attaching = made.attach('ses_1', network(NetworkMode.FULL), sandbox).catch((error) => error);
  const closing = made.close();
  if (failure === undefined) linked.resolve();
  else linked.reject(failure);
  await attaching;
  await closing;
  expect(happened).toEqual(done);
  for (const mode of [NetworkMode.FULL, NetworkMode.EGRESS]) {
    await expect(made.attach('ses_2', network(mode), sandbox)).rejects.toMatchObject({ reason: 'SHUTTING_DOWN' });
  }
  expect(happened).toEqual(done);
});
