import { readFileSync, writeFileSync } from 'node:fs';
import { runProgram } from '../../program/program.ts';
import type { AddressRange } from '../address-range.ts';
import { alwaysClosed } from '../closed-addresses.ts';
import { hostNameServers, resolverConfig } from './name-servers.ts';
import { createRuleKeeper } from './rule-keeper.ts';
import { linkSession } from './session-link.ts';

const forwarding = '/proc/sys/net/ipv4/ip_forward';

export interface FullNetworkDeps {
  readonly installation: string;
  readonly sessions: AddressRange;
  readonly blocked: readonly AddressRange[];
  /** Empty: the host's. */
  readonly nameServers: readonly string[];
}

/** The public internet for a sandbox. */
export interface FullNetwork {
  /** Why this worker cannot give it; undefined: it can. */
  obstacle(): Promise<string | undefined>;
  /** `resolverFile`: the file on the host that is the container's /etc/resolv.conf. */
  attach(container: { readonly resolverFile: string; readonly pid: number }): Promise<void>;
  /** Makes sure of the rules for a sandbox that has its link already. */
  keep(): Promise<void>;
  /** Takes the rules away, whoever made them; no sandbox may be attached. */
  remove(): Promise<void>;
}

export function createFullNetwork(deps: FullNetworkDeps): FullNetwork {
  const { installation, sessions, blocked } = deps;
  const nameServers = deps.nameServers.length > 0 ? deps.nameServers : hostNameServers();
  const rules = createRuleKeeper({ installation, sessions, closed: alwaysClosed, nameServers, blocked });
  const link = { installation, sessions, unreachable: [...alwaysClosed, ...blocked], nameServers };
  return {
    async obstacle() {
      if (process.getuid?.() !== 0) return 'it needs root';
      try {
        if (readFileSync(forwarding, 'utf8').trim() !== '1') return `${forwarding} is not 1`;
        await runProgram('nsenter', ['--version']);
        await runProgram('ip', ['-V']);
        await rules.try();
        return undefined;
      } catch (error) {
        return (error as Error).message;
      }
    },
    async attach({ resolverFile, pid }) {
      await rules.ensure();
      writeFileSync(resolverFile, resolverConfig(nameServers), { flag: 'r+' });
      await linkSession(link, pid);
    },
    keep: rules.ensure,
    async remove() {
      // Nobody else may look at the tables, or can have put any there.
      if (process.getuid?.() === 0) await rules.remove();
    },
  };
}
