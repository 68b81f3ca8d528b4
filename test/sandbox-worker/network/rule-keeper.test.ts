import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import type { AddressRange } from '../../../services/sandbox-worker/network/address-range.ts';
import { tagOf } from '../../../services/sandbox-worker/network/full/packet-rules.ts';
import { createRuleKeeper } from '../../../services/sandbox-worker/network/full/rule-keeper.ts';
import { runDirectory, runId } from '../../run.ts';

const installation = `${runId()}-keeper`;
const chain = `ASSAY-${tagOf(installation)}-IN`;
const sessions: AddressRange = { family: 'ipv4', address: '198.19.0.0', prefix: 16 };
const keeper = createRuleKeeper({ installation, sessions, closed: [], nameServers: [], blocked: [] });

const rules = (program: string): string[] =>
  execFileSync(program, { encoding: 'utf8' })
    .split('\n')
    .filter((line) => line.includes(installation));

/** Only root may look at the tables. */
const asRoot = process.getuid?.() === 0;
afterEach(async () => {
  if (asRoot) await keeper.remove();
});

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

/** Does something while a system program cannot be run. */
async function without(program: string, work: () => Promise<void>): Promise<void> {
  const directory = mkdtempSync(join(runDirectory(), 'broken-'));
  const path = process.env.PATH;
  writeFileSync(join(directory, program), '#!/bin/sh\necho it is busy >&2\nexit 4\n', { mode: 0o755 });
  process.env.PATH = `${directory}:${path}`;
  try {
    await work();
  } finally {
    process.env.PATH = path;
    rmSync(directory, { recursive: true });
  }
}

test.runIf(asRoot)('rules of one family that cannot be removed keep nobody from removing the others', async () => {
  await keeper.ensure();
  await without('iptables-save', () => expect(keeper.remove()).rejects.toThrow('it is busy'));
  expect(rules('iptables-save')).toHaveLength(6);
  expect(rules('ip6tables-save')).toEqual([]);
  await keeper.remove();
  expect(rules('iptables-save')).toEqual([]);
});

test.runIf(asRoot)('what a worker left that died between the two families is removed by the next one', async () => {
  await without('iptables-restore', () => expect(keeper.ensure()).rejects.toThrow('it is busy'));
  expect([rules('iptables-save').length, rules('ip6tables-save').length]).toEqual([0, 2]);
  await createRuleKeeper({ installation, sessions, closed: [], nameServers: [], blocked: [] }).remove();
  expect([...rules('iptables-save'), ...rules('ip6tables-save')]).toEqual([]);
});

test.runIf(asRoot)('rules of a worker before this one are replaced by what is wanted now', async () => {
  await keeper.ensure();
  const blocked: AddressRange = { family: 'ipv4', address: '198.51.100.0', prefix: 24 };
  const next = createRuleKeeper({ installation, sessions, closed: [], nameServers: [], blocked: [blocked] });
  const drops = () =>
    execFileSync('iptables-save', { encoding: 'utf8' }).includes(`${chain} -d 198.51.100.0/24 -j DROP`);
  expect(drops()).toBe(false);
  await next.ensure();
  expect(drops()).toBe(true);
  expect(rules('iptables-save')).toHaveLength(6);
});
