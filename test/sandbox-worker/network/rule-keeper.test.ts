import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';
import type { AddressRange } from '../../../services/sandbox-worker/network/address-range.ts';
import { createRuleKeeper } from '../../../services/sandbox-worker/network/full/rule-keeper.ts';
import { runId } from '../../run.ts';

const installation = `${runId()}-keeper`;
const sessions: AddressRange = { family: 'ipv4', address: '198.19.0.0', prefix: 16 };
const keeper = createRuleKeeper({ installation, sessions, closed: [], nameServers: [], blocked: [] });

const rules = (program: string): string[] =>
  execFileSync(program, { encoding: 'utf8' })
    .split('\n')
    .filter((line) => line.includes(installation));

/** Only root may look at the tables. */
const asRoot = process.getuid?.() === 0;

test.runIf(asRoot)('to try the rules leaves none on the host', async () => {
  await keeper.try();
  expect([...rules('iptables-save'), ...rules('ip6tables-save')]).toEqual([]);
});

test.runIf(asRoot)('the rules are there once, however often they are ensured, until they are removed', async () => {
  await Promise.all([keeper.ensure(), keeper.ensure()]);
  expect(rules('iptables-save')).toHaveLength(6);
  expect(rules('ip6tables-save')).toHaveLength(2);
  await keeper.remove();
  expect([...rules('iptables-save'), ...rules('ip6tables-save')]).toEqual([]);
});
