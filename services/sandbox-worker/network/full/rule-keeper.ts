import { existsSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { runProgram } from '../../program/program.ts';
import { type PacketRulesSpec, packetRules, packetRules6, ruleCheck, rulesRemoval } from './packet-rules.ts';

const attempts = 5;
const pauseMs = 50;

type Tables = 'iptables' | 'ip6tables';

/** Keeps the packet rules of this installation in the host's tables. */
export interface RuleKeeper {
  /** Rejects with the reason why this machine cannot have them; changes nothing on it. */
  try(): Promise<void>;
  /** They are there when this resolves. */
  ensure(): Promise<void>;
  remove(): Promise<void>;
}

export function createRuleKeeper(spec: PacketRulesSpec): RuleKeeper {
  const { installation } = spec;
  let turn: Promise<unknown> = Promise.resolve();
  /** Whether those that are there are of this process: a worker before it may have had other settings. */
  let own = false;

  /** One change at a time. */
  function inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = turn.then(work, work);
    turn = result.catch(() => {});
    return result;
  }

  /** Others change the tables too, and one that came first makes a change fail. */
  async function replace(tables: Tables, rules: string): Promise<void> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await replaceOnce(tables, rules);
      } catch (error) {
        if (attempt === attempts) throw error;
        await delay(pauseMs * attempt);
      }
    }
  }

  /** Replaces what is there in one transaction, so that a session is never without them. */
  async function replaceOnce(tables: Tables, rules: string): Promise<void> {
    const dump = await runProgram(`${tables}-save`, []);
    const removal = rulesRemoval(dump, installation, rules !== '');
    if (removal.length === 0 && rules === '') return;
    await runProgram(`${tables}-restore`, ['-w', '10', '--noflush'], [...removal, rules].join('\n'));
  }

  // A kernel without IPv6 has no tables for it.
  const all: readonly Tables[] = existsSync('/proc/net/if_inet6') ? ['ip6tables', 'iptables'] : ['iptables'];
  const wanted = { iptables: packetRules(spec), ip6tables: packetRules6(installation) };

  return {
    async try() {
      // In a network namespace that goes with the program.
      for (const each of all) await runProgram('unshare', ['--net', `${each}-restore`, '-w', '10'], wanted[each]);
    },
    ensure: () =>
      inTurn(async () => {
        const there = () =>
          runProgram('iptables', ruleCheck(installation)).then(
            () => true,
            () => false,
          );
        if (own && (await there())) return;
        for (const each of all) await replace(each, wanted[each]);
        own = true;
      }),
    remove: () =>
      inTurn(async () => {
        own = false;
        const failures: unknown[] = [];
        // Those of one family can go although the others cannot.
        for (const each of all.toReversed()) await replace(each, '').catch((error) => failures.push(error));
        if (failures.length > 0) throw failures[0];
      }),
  };
}
