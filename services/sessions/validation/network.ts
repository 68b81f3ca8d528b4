import { type Network, NetworkMode } from '../../../gen/assay/v1/types_pb.js';
import { coversPattern, type HostPattern, parseHostPattern } from '../../shared/host-pattern.ts';
import { checkCount, invalid, show } from './field.ts';

const hosts = 64;

/** The hosts that are asked for must be within those that the operator lets anyone ask for. */
export function checkNetwork(field: string, network: Network, within: readonly HostPattern[]): void {
  const { mode, allow } = network;
  if (NetworkMode[mode] === undefined) throw invalid(`${field}.mode`, `found ${mode}`, 'NONE, EGRESS or FULL');
  checkCount(`${field}.allow`, allow.length, hosts);
  if (allow.length > 0 && mode !== NetworkMode.EGRESS) {
    const found = `found ${allow.length} hosts with the mode ${NetworkMode[mode]}`;
    throw invalid(`${field}.allow`, found, 'none, or the mode EGRESS');
  }
  allow.forEach((text, at) => {
    const pattern = parseHostPattern(text);
    const name = `${field}.allow[${at}]`;
    if (pattern === undefined) {
      const expected = 'a host name such as example.org, *.example.org or example.org:8443';
      throw invalid(name, `found ${show(text)}`, expected);
    }
    if (within.some((limit) => coversPattern(limit, pattern))) return;
    throw invalid(name, `found ${show(text)}`, 'a host that the operator permits (ASSAY_LIMIT_EGRESS_HOSTS)');
  });
}
