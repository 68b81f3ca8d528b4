import { existsSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { runWithInput } from '../system-program.ts';
import { type PacketRulesSpec, packetRules, packetRules6, ruleCheck, rulesRemoval } from './packet-rules.ts';

const attempts = 5;
const pauseMs = 50;

/** Keeps the packet rules of this installation in the host's tables. */
export interface RuleKeeper {
  /** They are there when this resolves. */
  ensure(): Promise<void>;
  remove(): Promise<void>;
}

export function createRuleKeeper(spec: PacketRulesSpec): RuleKeeper {
  const { installation } = spec;
  let turn: Promise<unknown> = Promise.resolve();

  /** One change at a time. */
  function inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = turn.then(work, work);
    turn = result.catch(() => {});
    return result;
  }

  /** Others change the tables too, and one that came first makes a change fail. */
  async function replace(tables: 'iptables' | 'ip6tables', rules: string): Promise<void> {
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
  async function replaceOnce(tables: 'iptables' | 'ip6tables', rules: string): Promise<void> {
    const dump = await runWithInput(`${tables}-save`, []);
    const removal = rulesRemoval(dump, installation, rules !== '');
    if (removal.length === 0 && rules === '') return;
    await runWithInput(`${tables}-restore`, ['-w', '10', '--noflush'], [...removal, rules].join('\n'));
  }

  // A kernel without IPv6 has no tables for it.
  const six = existsSync('/proc/net/if_inet6');

  return {
    ensure: () =>
      inTurn(async () => {
        const there = await runWithInput('iptables', ruleCheck(installation)).then(
          () => true,
          () => false,
        );
        if (there) return;
        if (six) await replace('ip6tables', packetRules6(installation));
        await replace('iptables', packetRules(spec));
      }),
    remove: () =>
      inTurn(async () => {
        await replace('iptables', '');
        if (six) await replace('ip6tables', '');
      }),
  };
}
